"""RuntimeConfig -> the arguments of vLLM: what the renderer says, and what the way we drive it adds.

Over several pods also the address by which vLLM's processes of this pod are reached: it would otherwise guess, by a
route to the internet.
"""

import os
import socket

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


VARIABLE = "VLLM_HOST_IP"


def tell_own_address(meeting: Meeting) -> None:
    """Set vLLM's variable, unless somebody knows better (`engine.env`)."""
    os.environ.setdefault(VARIABLE, address_towards(meeting))


def address_towards(meeting: Meeting) -> str:
    """This machine's address on the way to where the processes meet; nothing is sent."""
    family = socket.AF_INET6 if ":" in meeting.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(meeting)
        return str(way.getsockname()[0])
