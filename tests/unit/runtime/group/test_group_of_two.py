"""Two real runtime processes that form one replica."""

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gaudi_runtime.contract.config import ParallelismConfig, RuntimeConfig, SharedRecipesConfig
from gaudi_runtime.contract.report import Phase, SharedRecipesOutcome
from tests.unit.runtime.configs import free_port, sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until

ROOT = Path(__file__).parents[4]
Start = Callable[[int], RuntimeProcess]
SLOW_SECOND = {"onlyRank": 1, "slowAtBucket": "decode:1", "slowSeconds": 86400}


class Group:
    """The processes of a group, which are started separately."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, script: dict[str, Any]) -> None:
        self._folder, self._stack, self._script = folder, stack, script
        self._port = free_port()

    def start(self, rank: int, module: str = "gaudi_runtime") -> RuntimeProcess:
        """Start one rank. `module` is the Python module that the process runs."""
        folder = self._folder / f"{rank}-{free_port()}"
        folder.mkdir()
        variables = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": str(rank), "LWS_LEADER_ADDRESS": "127.0.0.1"}
        variables["PYTHONPATH"] = str(ROOT)
        return self._stack.enter_context(runtime_process(folder, self._config(), variables=variables, module=module))

    def _config(self) -> RuntimeConfig:
        config = sim_config(self._script, serving={"group_port": self._port})
        (self._folder / "shared").mkdir(exist_ok=True)
        shared = SharedRecipesConfig(path=str(self._folder / "shared"), limit_bytes=2**20, max_age_seconds=3600)
        both = ParallelismConfig(tensor=2, nodes=2)
        desired = {"parallelism": both, "shared_recipes": shared, "recipe_cache_dir": "recipes"}
        return config.model_copy(update=desired)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """A factory of groups whose processes end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **script: Group(tmp_path, stack, script)


def test_leader_serves_after_all_joined_and_ends_with_farewell(group: Callable[..., Group]) -> None:
    pods = group()
    leader = pods.start(0)
    wait_until(lambda: leader.report().warnings == ("The group waits for the pod of rank 1.",))
    assert not leader.model_port_open()
    second = pods.start(1)
    report = leader.follow(Phase.SERVING)[-1]
    assert (report.prompt.captured, report.decode.captured) == (report.prompt.planned, report.decode.planned)
    second.follow(Phase.SERVING)
    assert not second.model_port_open()
    asked = {"model": "echo", "prompt": "two pods", "max_tokens": 8}
    answer = httpx.post(f"{leader.model_url}/v1/completions", json=asked, trust_env=False).json()
    assert answer["choices"][0]["text"] == "two pods"
    leader.signal(signal.SIGTERM)
    assert (leader.exit_code(), second.exit_code()) == (0, 0)


def test_bucket_is_captured_if_every_rank_has_it(group: Callable[..., Group]) -> None:
    pods = group(**SLOW_SECOND)
    leader, second = pods.start(0), pods.start(1)
    wait_until(lambda: leader.report().decode.current is not None)
    assert leader.report().decode.warmed == 0
    second.process.kill()
    assert leader.exit_code() == 1
    assert "Rank 1 of this group is lost" in leader.log.read_text()


def test_out_of_memory_on_one_rank_ends_capture_on_both(group: Callable[..., Group]) -> None:
    pods = group(onlyRank=1, oomAtBucket="prompt:2")
    leader, _ = pods.start(0), pods.start(1)
    report = leader.follow(Phase.SERVING)[-1]
    assert report.prompt.captured == 1
    assert "Out of device memory at prompt bucket" in leader.log.read_text()
    assert ": rank 1: simulated by oomAtBucket=prompt:2" in leader.log.read_text()


def test_rank_that_cannot_load_fails_the_group_with_reason(group: Callable[..., Group]) -> None:
    pods = group(failLoad="ModelNotFound", onlyRank=1)
    leader, _ = pods.start(0), pods.start(1)
    wait_until(lambda: leader.report().phase is Phase.FAILED)
    failure = leader.report().failure
    assert failure is not None
    assert (failure.reason, failure.message.split(": ")[0]) == ("ModelNotFound", "Rank 1")


def test_leader_ends_if_the_failure_of_a_rank_may_pass(group: Callable[..., Group]) -> None:
    pods = group(failLoad="DeviceUnavailable", onlyRank=1)
    leader, _ = pods.start(0, "tests.unit.runtime.serve.hasty"), pods.start(1)
    assert leader.exit_code() == 1
    assert "This process exits (DeviceUnavailable): Rank 1: " in leader.log.read_text()


def test_serving_leader_ends_if_a_rank_is_lost(group: Callable[..., Group]) -> None:
    pods = group()
    leader, second = pods.start(0), pods.start(1)
    leader.follow(Phase.SERVING)
    second.process.kill()
    assert leader.exit_code() == 1


def test_rank_ends_if_its_leader_ends(group: Callable[..., Group]) -> None:
    pods = group()
    leader, second = pods.start(0), pods.start(1)
    second.follow(Phase.SERVING)
    leader.process.kill()
    assert second.exit_code() == 1
    # Do not compare the whole message, because it depends on whether the kernel sends FIN or RST. The kernel sends RST
    # if the leader had not read all data.
    assert re.search(r"\(EngineLost\): The .*leader .*this group", second.log.read_text())


def test_restarted_rank_of_a_complete_group_ends_the_leader(group: Callable[..., Group]) -> None:
    pods = group()
    leader, _ = pods.start(0), pods.start(1)
    leader.follow(Phase.SERVING)
    pods.start(1)
    assert leader.exit_code() == 1
    assert "Rank 1 of this group is lost: it has restarted." in leader.log.read_text()


def test_terminating_rank_waits_until_the_leader_drained(group: Callable[..., Group]) -> None:
    pods = group()
    leader, second = pods.start(0), pods.start(1)
    second.follow(Phase.SERVING)
    second.signal(signal.SIGUSR1)
    wait_until(lambda: leader.get("/readyz").status_code == 503)
    assert leader.report().phase is Phase.SERVING
    second.signal(signal.SIGTERM)
    assert (leader.exit_code(), second.exit_code()) == (0, 0)
    assert "The leader has ended this group." in second.log.read_text()


def test_second_group_uses_the_recipes_of_the_first(group: Callable[..., Group]) -> None:
    pods = group()
    leader, _ = pods.start(0), pods.start(1)
    leader.follow(Phase.SERVING)
    leader.signal(signal.SIGTERM)
    assert leader.exit_code() == 0
    later = [pods.start(rank) for rank in (0, 1)]
    wait_until(lambda: all(pod.report().shared_recipes for pod in later))
    taken = [shared for pod in later if (shared := pod.report().shared_recipes)]
    assert [(each.outcome, each.reason) for each in taken] == [(SharedRecipesOutcome.HIT, None)] * 2
