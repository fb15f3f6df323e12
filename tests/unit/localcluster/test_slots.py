"""Slots separate the nodes on one machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError
from localcluster.sandbox import slots
from localcluster.sandbox.addresses import SLOTS, Addresses

Take = Callable[..., tuple[int, int]]


def no_link(_: str) -> bool:
    return False


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Return a function that takes slots, as on a machine without other nodes."""
    return lambda has_link=no_link: slots.take(tmp_path, has_link)


def test_second_caller_gets_the_next_slot(take: Take) -> None:
    assert [take()[0], take()[0]] == [0, 1]


def test_slot_of_an_ended_holder_is_reused(take: Take) -> None:
    _, lock = take()
    os.close(lock)
    assert take()[0] == 0


def test_slot_of_another_holder_is_not_released(take: Take, tmp_path: Path) -> None:
    slot, _ = take()
    with slots.try_hold(slot, tmp_path) as ours:
        assert not ours


def test_slot_with_an_existing_link_is_skipped(take: Take) -> None:
    assert take(lambda link: link == Addresses(0).link)[0] == 1


def test_missing_free_slot_is_an_error_with_a_remedy(take: Take) -> None:
    for _ in range(SLOTS):
        take()
    with pytest.raises(LocalClusterError, match=r"8 local clusters are running\. Stop one"):
        take()
