"""One replica of two pods: two real runtimes, whose vLLM processes are joined by its own launcher for several nodes.

The tests of a file run in their order: one of them ends the group of those before it.
"""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from openai import OpenAI

from gaudi_runtime.contract.bucketing import PromptRanges, RangeSettings
from gaudi_runtime.contract.config import ExecutionMode, ParallelismConfig, RuntimeConfig
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.unit.runtime.configs import free_port
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process
from tests.vllm.configs import vllm_config
from tests.vllm.greedy_tokens import served_tokens, torch_tokens

pytestmark = pytest.mark.timeout(900)  # five processes import vLLM, on two cores at worst

SHARED_CORES = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""Each of the two would bind itself to the first core of this machine."""
PROMPTS = [[5, 6, 7], list(range(3, 70))]


class Group(NamedTuple):
    """The runtimes of both pods, and what the leader has reported on its way."""

    leader: RuntimeProcess
    worker: RuntimeProcess
    reports: list[WarmupReport]


def config_of(
    checkpoint: Path,
    folder: Path,
    parallelism: ParallelismConfig,
    mode: ExecutionMode = ExecutionMode.TORCH_COMPILE,
) -> RuntimeConfig:
    """Two ranks, a pod each. Graphs of 1 and 64 tokens."""
    one, length = RangeSettings(min=1, step=1, max=1), RangeSettings(min=64, step=64, max=64)
    config = vllm_config(checkpoint, folder, mode, batch_sizes=one, max_num_seqs=1, max_num_batched_tokens=64)
    bucketing = config.bucketing.model_copy(update={"prompt": PromptRanges(batch_size=one, query=length)})
    return config.model_copy(update={"parallelism": parallelism, "bucketing": bucketing})


@contextlib.contextmanager
def group_of(folder: Path, config: RuntimeConfig) -> Iterator[tuple[RuntimeProcess, RuntimeProcess]]:
    """The leader and the worker. Each has ports and a disk of its own."""
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


@pytest.fixture(scope="module")
def group(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A warm group."""
    folder = tmp_path_factory.mktemp("group")
    both = ParallelismConfig(tensor=2, nodes=2)
    with group_of(folder, config_of(checkpoint, folder, both)) as (leader, worker):
        yield Group(leader, worker, leader.follow(Phase.SERVING))


def greedy(leader: RuntimeProcess) -> list[list[int]]:
    """What the group answers."""
    with OpenAI(base_url=f"{leader.model_url}/v1", api_key="none", max_retries=0) as client:
        return served_tokens(client, PROMPTS, 24)


def workers_of(runtime: RuntimeProcess) -> list[psutil.Process]:
    """The processes of vLLM below a runtime that have a part of the model."""
    below = psutil.Process(runtime.process.pid).children(recursive=True)
    return [each for each in below if "VLLM::Worker" in "".join(each.cmdline())]


def test_each_pod_has_one_rank_with_every_bucket_captured(group: Group) -> None:
    assert [len(workers_of(each)) for each in (group.leader, group.worker)] == [1, 1]
    shown = [report.prompt.captured + report.decode.captured for report in group.reports]
    assert shown == sorted(shown)
    ready = group.reports[-1]
    assert ready.prompt.captured == ready.prompt.planned == 1
    assert ready.decode.captured == ready.decode.planned > 0
    group.worker.follow(Phase.SERVING)
    assert not group.worker.model_port_open()


def test_answers_are_those_of_one_process(checkpoint: Path, group: Group) -> None:
    assert greedy(group.leader) == torch_tokens(checkpoint, PROMPTS, 24)


def test_a_lost_rank_ends_the_whole_group(group: Group) -> None:
    [rank] = workers_of(group.worker)
    rank.send_signal(signal.SIGKILL)
    assert (group.worker.exit_code(), group.leader.exit_code()) == (1, 1)
    assert "A process of vLLM died in this pod: VllmWorker-1 was ended by SIGKILL" in group.worker.log.read_text()
    assert "Rank 1 of this group is lost: its process has ended." in group.leader.log.read_text()


def test_stages_in_two_pods_answer_alike_and_end_together(checkpoint: Path, tmp_path: Path) -> None:
    both = ParallelismConfig(pipeline=2, nodes=2)
    with group_of(tmp_path, config_of(checkpoint, tmp_path, both, ExecutionMode.EAGER)) as (leader, worker):
        leader.follow(Phase.SERVING)
        assert greedy(leader) == torch_tokens(checkpoint, PROMPTS, 24)
        worker.signal(signal.SIGTERM)
        assert (leader.exit_code(), worker.exit_code()) == (0, 0)
