"""The connection of vLLM's processes in several pods, and the end of a start if one pod fails."""

import os
import threading
from collections.abc import Iterator
from unittest import mock

import pytest

from gaudi_runtime.engine_protocol.group import LeaderEndpoint
from gaudi_runtime.engines.vllm import launch as launching
from gaudi_runtime.engines.vllm.launch import HOST_VARIABLE, launch, node_arguments, set_host_ip
from gaudi_runtime.errors import RankFailed
from tests.unit.runtime.knobs.configs import vllm_config

LOOPBACK = LeaderEndpoint("127.0.0.2", 4567)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Restore the environment, which a start changes."""
    with mock.patch.dict(os.environ):
        os.environ.pop(HOST_VARIABLE, None)
        yield


def test_every_pod_gets_its_leader_and_its_rank() -> None:
    assert node_arguments(LeaderEndpoint("10.0.0.7", 4567), nodes=4, rank=3) == (
        "--nnodes=4",
        "--node-rank=3",
        "--master-addr=10.0.0.7",
        "--master-port=4567",
    )


@pytest.mark.parametrize(("leader", "expected"), [("127.0.0.2", "127.0.0.1"), ("::1", "::1")])
def test_own_address_is_the_source_address_towards_the_leader(leader: str, expected: str) -> None:
    set_host_ip(LeaderEndpoint(leader, 4567))
    assert os.environ[HOST_VARIABLE] == expected


def test_configured_address_is_kept() -> None:
    os.environ[HOST_VARIABLE] = "10.9.9.9"
    set_host_ip(LOOPBACK)
    assert os.environ[HOST_VARIABLE] == "10.9.9.9"


def test_start_ends_if_another_pod_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a check of the other pods, the processes of this pod would wait for a failed pod forever."""
    ended: list[bool] = []
    monkeypatch.setattr(launching, "parse_arguments", lambda arguments: None)
    # Record the call instead of ending the child processes, because other tests may have started some of them.
    monkeypatch.setattr(launching, "end_children", lambda: ended.append(True))
    never = threading.Event()

    def failed() -> None:
        raise RankFailed("ModelNotFound", "Rank 1: /models is empty.")

    with pytest.raises(RankFailed, match="/models is empty"):
        launch((), vllm_config(), lambda parsed: never.wait(), lambda: None, failed, poll_seconds=0.01)
    never.set()
    assert ended
