"""RuntimeConfig -> the arguments of vLLM: what the renderer says, and what the way we drive it adds."""

from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.engines.protocol import Meeting
from gaudi_runtime.knobs.render import render

WORKERS = {
    "cpu": "gaudi_runtime.engines.vllm.cpu_worker.DrivenCpuWorker",
    "hpu": "gaudi_runtime.engines.vllm.hpu_worker.DrivenHpuWorker",
}


def engine_arguments(config: RuntimeConfig, kv_cache_bytes: int | None) -> tuple[str, ...]:
    """All arguments. `kv_cache_bytes` is the KV cache of one rank, None where vLLM's plugin divides the memory.

    Raises ConfigError naming every wrong setting.
    """
    engine = config.engine
    arguments = [*render(config).args, f"--worker-cls={WORKERS[engine.device]}"]
    if kv_cache_bytes is not None:
        arguments.append(f"--kv-cache-memory-bytes={kv_cache_bytes}")
    if engine.device == "cpu" and engine.execution_mode is ExecutionMode.TORCH_COMPILE:
        # vLLM's own graph of a CPU has symbolic sizes; ours are compiled by us (fixed_shapes.py).
        arguments.append("--enforce-eager")
    return tuple(arguments)


def meeting_arguments(meeting: Meeting, nodes: int, rank: int) -> tuple[str, ...]:
    """What joins the processes of pod `rank` to those of all `nodes` pods, by vLLM's own launcher."""
    return (
        f"--nnodes={nodes}",
        f"--node-rank={rank}",
        f"--master-addr={meeting.address}",
        f"--master-port={meeting.port}",
    )
