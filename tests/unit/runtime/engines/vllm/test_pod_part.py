"""vLLM's processes in a pod that is not the leader: their start, a death, and the end."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.engine_protocol.group import LeaderEndpoint
from gaudi_runtime.engines.vllm import pod_part, processes
from gaudi_runtime.engines.vllm.launch import HOST_VARIABLE
from gaudi_runtime.engines.vllm.pod_part import VllmPodPart
from gaudi_runtime.engines.vllm.vllm_imports import build_pod_part
from tests.unit.runtime.engines.vllm.installed import pretend_installed
from tests.unit.runtime.knobs.configs import vllm_config


class Executor:
    """A fake of vLLM's MultiprocExecutor, whose only worker ended with a signal."""

    def __init__(self) -> None:
        self.workers = [SimpleNamespace(proc=SimpleNamespace(name="VllmWorker-9", exitcode=-9))]
        self.ended = False
        self.report_death: Callable[[], None] | None = None

    def register_failure_callback(self, callback: Callable[[], None]) -> None:
        """Keep the callback, which vLLM's monitor calls from its own thread."""
        self.report_death = callback

    def shutdown(self) -> None:
        """Record the shutdown."""
        self.ended = True


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> VllmPodPart:
    """A fixture with the second of two pods. Only vLLM's processes are fakes."""
    pretend_installed(monkeypatch, tmp_path, vllm=PAIRS[0].vllm, vllm_gaudi=PAIRS[0].plugin)
    monkeypatch.setenv(HOST_VARIABLE, "10.0.0.8")
    return VllmPodPart(vllm_config(parallelism={"tensor": 2, "nodes": 2}), 1)


def test_processes_join_the_leader_with_the_rank_of_their_pod(
    part: VllmPodPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[Any] = []
    monkeypatch.setattr(processes, "launch", lambda *arguments: launched.extend(arguments) or (None, Executor()))
    steps: list[None] = []
    part.join(LeaderEndpoint("10.0.0.7", 4567), lambda: steps.append(None))
    arguments, config, build, progress, check = launched
    assert {"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.7", "--master-port=4567"} <= set(arguments)
    assert set(part.report_fields()["engine_arguments"]) < set(arguments)  # type: ignore[call-overload]
    assert (config.parallelism.nodes, build) == (2, build_pod_part)
    check()
    progress()
    assert len(steps) == 1


async def test_death_in_this_pod_is_reported_with_its_signal(
    part: VllmPodPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Executor()
    monkeypatch.setattr(processes, "launch", lambda *_: (None, executor))
    part.join(LeaderEndpoint("10.0.0.7", 4567), lambda: None)
    lost = asyncio.create_task(part.wait_until_lost())
    await asyncio.sleep(0)
    assert executor.report_death is not None
    assert not lost.done()
    monitor = threading.Thread(target=executor.report_death)
    monitor.start()
    assert "VllmWorker-9 was ended by SIGKILL" in str(await asyncio.wait_for(lost, 60))
    monitor.join()


@pytest.mark.parametrize("joined", [True, False])
async def test_closing_ends_all_processes_also_during_their_start(
    part: VllmPodPart, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    executor, ended = Executor(), list[bool]()
    monkeypatch.setattr(processes, "launch", lambda *_: (None, executor))
    monkeypatch.setattr(pod_part, "end_children", lambda: ended.append(True))
    if joined:
        part.join(LeaderEndpoint("10.0.0.7", 4567), lambda: None)
    await part.close()
    assert (executor.ended, ended) == (joined, [True])
