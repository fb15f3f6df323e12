"""One replica of two pods: vLLM's multi-node launcher connects the vLLM processes of two real runtimes.

The order of the tests in this file matters: one test ends the group that the earlier tests use.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from gaudi_runtime.contract.config import ParallelismConfig
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.unit.runtime.runtime_process import RuntimeProcess
from tests.vllm.greedy_tokens import transformers_tokens
from tests.vllm.two_pods import PROMPTS, config_of, greedy, group_of


class Group(NamedTuple):
    """The runtimes of both pods, and the leader's reports from the start until the group was warm."""

    leader: RuntimeProcess
    worker: RuntimeProcess
    reports: list[WarmupReport]


@pytest.fixture(scope="module")
def group(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A group that is warm and serves."""
    folder = tmp_path_factory.mktemp("group")
    both = ParallelismConfig(tensor=2, nodes=2)
    with group_of(folder, config_of(checkpoint, folder, both)) as (leader, worker):
        yield Group(leader, worker, leader.follow(Phase.SERVING))


def worker_processes(runtime: RuntimeProcess) -> list[psutil.Process]:
    """Return the vLLM worker processes of a runtime. Each of these processes has loaded a part of the model."""
    below = psutil.Process(runtime.process.pid).children(recursive=True)
    return [each for each in below if "VLLM::Worker" in "".join(each.cmdline())]


def test_each_pod_has_one_rank_with_every_bucket_captured(group: Group) -> None:
    assert [len(worker_processes(each)) for each in (group.leader, group.worker)] == [1, 1]
    shown = [report.prompt.captured + report.decode.captured for report in group.reports]
    assert shown == sorted(shown)
    ready = group.reports[-1]
    assert ready.prompt.captured == ready.prompt.planned == 1
    assert ready.decode.captured == ready.decode.planned > 0
    group.worker.follow(Phase.SERVING)
    assert not group.worker.model_port_open()


def test_answers_of_two_pods_equal_those_of_transformers(checkpoint: Path, group: Group) -> None:
    assert greedy(group.leader) == transformers_tokens(checkpoint, PROMPTS, 24)


def test_killed_rank_ends_both_pods_with_a_message(group: Group) -> None:
    [rank] = worker_processes(group.worker)
    rank.send_signal(signal.SIGKILL)
    assert (group.worker.exit_code(), group.leader.exit_code()) == (1, 1)
    assert re.search(r"died in this pod: VllmWorker-1 .*SIGKILL", group.worker.log.read_text())
    assert "Rank 1 of this group" in group.leader.log.read_text()
