"""Two real runtimes on this machine that form one replica, and the answers of this replica."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from openai import OpenAI

from gaudi_runtime.contract.bucketing import BucketingRangeSettings, PromptRanges
from gaudi_runtime.contract.config import ExecutionMode, ParallelismConfig, RuntimeConfig
from tests.unit.runtime.configs import free_port
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process
from tests.vllm.configs import vllm_config
from tests.vllm.greedy_tokens import served_tokens

SHARED_CORES = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""Without this setting both runtimes would bind to the first core of this machine."""
PROMPTS = [[5, 6, 7], list(range(3, 70))]


def config_of(
    checkpoint: Path,
    folder: Path,
    parallelism: ParallelismConfig,
    mode: ExecutionMode = ExecutionMode.TORCH_COMPILE,
) -> RuntimeConfig:
    """Return a configuration with two ranks, one rank per pod, and graphs of 1 and 64 tokens."""
    one, length = BucketingRangeSettings(min=1, step=1, max=1), BucketingRangeSettings(min=64, step=64, max=64)
    config = vllm_config(checkpoint, folder, mode, batch_sizes=one, max_num_seqs=1, max_num_batched_tokens=64)
    bucketing = config.bucketing.model_copy(update={"prompt": PromptRanges(batch_size=one, query=length)})
    return config.model_copy(update={"parallelism": parallelism, "bucketing": bucketing})


@contextlib.contextmanager
def group_of(folder: Path, config: RuntimeConfig) -> Iterator[tuple[RuntimeProcess, RuntimeProcess]]:
    """Start the leader and the worker. Each runtime has its own ports and folder."""
    port = free_port()
    with contextlib.ExitStack() as stack:

        def start(rank: int) -> RuntimeProcess:
            own = folder / str(rank)
            own.mkdir()
            ports = {"group_port": port, "model_port": free_port(), "status_port": free_port()}
            place = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": str(rank), "LWS_LEADER_ADDRESS": "127.0.0.1"}
            own_disk = {"TORCHINDUCTOR_CACHE_DIR": str(own / "inductor")}
            serving = config.serving.model_copy(update=ports)
            mine = config.model_copy(update={"serving": serving})
            return stack.enter_context(runtime_process(own, mine, variables=place | own_disk | SHARED_CORES))

        yield start(0), start(1)


def greedy(leader: RuntimeProcess) -> list[list[int]]:
    """Return the greedy answers of the group."""
    with OpenAI(base_url=f"{leader.model_url}/v1", api_key="none", max_retries=0) as client:
        return served_tokens(client, PROMPTS, 24)
