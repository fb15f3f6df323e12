"""Gates go first, then what is in motion; namespaces take turns, and no slot is lost."""

import asyncio
from collections.abc import Iterator

import pytest

from gaudi_operator.shell.reconciling.slots import Rank, Slots
from gaudi_operator.shell.watching.store import Key
from tests.world.loop import Loop


class Line:
    """Reconciles that wait for a slot; `began` are the names of those that got one, in order."""

    def __init__(self, at_once: int) -> None:
        """Nobody waits."""
        self.loop, self.slots = Loop(), Slots(at_once)
        self.began: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def wait(self, name: str, rank: Rank = Rank.REST, namespace: str = "blue") -> None:
        """One more waits."""
        self.tasks[name] = self.loop.create_task(self.take(Key(namespace, name), rank))
        self.settle()

    async def take(self, key: Key, rank: Rank) -> None:
        """Wait for a slot and begin."""
        await self.slots.acquire(key, rank)
        self.began.append(key.name)

    def settle(self) -> None:
        """All that follows at once is done."""
        self.loop.run_until(self.loop.time())

    def release(self, times: int = 1) -> None:
        """So many are over, one after the other."""
        for _ in range(times):
            self.loop.call_soon(self.slots.release)
            self.settle()


@pytest.fixture
def line() -> Iterator[Line]:
    """One at a time."""
    made = Line(1)
    yield made
    for task in made.tasks.values():
        task.cancel()
    made.settle()
    made.loop.close()


def test_no_more_run_than_may(line: Line) -> None:
    line.wait("a")
    line.wait("b")
    assert line.began == ["a"]
    line.release()
    assert line.began == ["a", "b"]


def test_gates_wait_for_no_other_work(line: Line) -> None:
    line.wait("a")
    line.wait("gate", Rank.GATES)
    assert line.began == ["a", "gate"]
    line.wait("second", Rank.GATES)
    assert line.began == ["a", "gate"]


def test_what_is_in_motion_goes_before_the_rest(line: Line) -> None:
    line.wait("a")
    line.wait("b")
    line.wait("moves", Rank.MOTION)
    line.release(2)
    assert line.began == ["a", "moves", "b"]


def test_resource_whose_pod_has_news_overtakes(line: Line) -> None:
    for name in ("a", "b", "c"):
        line.wait(name)
    line.slots.promote_to_gates(Key("blue", "c"))
    line.settle()
    assert line.began == ["a", "c"]


def test_hurry_of_one_that_does_not_wait_changes_nothing(line: Line) -> None:
    line.wait("a")
    line.slots.promote_to_gates(Key("blue", "a"))
    line.slots.promote_to_gates(Key("green", "b"))
    line.wait("b")
    assert line.began == ["a"]


def test_namespaces_take_turns(line: Line) -> None:
    for name in ("a", "b", "c"):
        line.wait(name)
    line.wait("other", namespace="green")
    line.release(3)
    assert line.began == ["a", "b", "other", "c"]


@pytest.mark.parametrize("handed_out", [False, True])
def test_slot_of_one_that_gives_up_is_not_lost(line: Line, handed_out: bool) -> None:
    line.wait("a")
    line.wait("b")
    if handed_out:
        line.loop.call_soon(line.slots.release)
        # Right after the slot was handed out, and before its task goes on.
        line.loop.call_soon(line.tasks["b"].cancel)
    else:
        line.tasks["b"].cancel()
    line.settle()
    line.wait("c")
    if not handed_out:
        line.release()
    assert line.began == ["a", "c"]
