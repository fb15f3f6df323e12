"""Slots of concurrent reconciles: gates come first, then resources in transition. Namespaces take turns."""

import asyncio
from collections.abc import Iterator

import pytest

from gaudi_operator.shell.reconciling.slots import Rank, ReconcileSlots
from gaudi_operator.shell.watching.store import StoreKey
from tests.world.loop import Loop


class Queue:
    """Reconciles that wait for a slot. `began` has the names of the reconciles that got a slot, in order."""

    def __init__(self, at_once: int) -> None:
        """Create a queue without waiting reconciles."""
        self.loop, self.slots = Loop(), ReconcileSlots(at_once)
        self.began: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def wait(self, name: str, rank: Rank = Rank.REST, namespace: str = "blue") -> None:
        """Add a waiting reconcile."""
        self.tasks[name] = self.loop.create_task(self.take(StoreKey(namespace, name), rank))
        self.settle()

    async def take(self, key: StoreKey, rank: Rank) -> None:
        """Wait for a slot and record the start."""
        await self.slots.acquire(key, rank)
        self.began.append(key.name)

    def settle(self) -> None:
        """Run all tasks that are ready."""
        self.loop.run_until(self.loop.time())

    def release(self, times: int = 1) -> None:
        """Finish `times` running reconciles, one after the other."""
        for _ in range(times):
            self.loop.call_soon(self.slots.release)
            self.settle()


@pytest.fixture
def line() -> Iterator[Queue]:
    """Return a queue with one slot."""
    made = Queue(1)
    yield made
    for task in made.tasks.values():
        task.cancel()
    made.settle()
    made.loop.close()


def test_number_of_running_reconciles_is_limited(line: Queue) -> None:
    line.wait("a")
    line.wait("b")
    assert line.began == ["a"]
    line.release()
    assert line.began == ["a", "b"]


def test_gate_reconciles_need_no_slot(line: Queue) -> None:
    line.wait("a")
    line.wait("gate", Rank.GATES)
    assert line.began == ["a", "gate"]
    line.wait("second", Rank.GATES)
    assert line.began == ["a", "gate"]


def test_resources_during_a_rollout_have_precedence(line: Queue) -> None:
    line.wait("a")
    line.wait("b")
    line.wait("moves", Rank.MOTION)
    line.release(2)
    assert line.began == ["a", "moves", "b"]


def test_resource_with_a_pod_change_has_precedence(line: Queue) -> None:
    for name in ("a", "b", "c"):
        line.wait(name)
    line.slots.promote_to_gates(StoreKey("blue", "c"))
    line.settle()
    assert line.began == ["a", "c"]


def test_promotion_without_a_waiting_reconcile_has_no_effect(line: Queue) -> None:
    line.wait("a")
    line.slots.promote_to_gates(StoreKey("blue", "a"))
    line.slots.promote_to_gates(StoreKey("green", "b"))
    line.wait("b")
    assert line.began == ["a"]


def test_slots_are_assigned_to_namespaces_round_robin(line: Queue) -> None:
    for name in ("a", "b", "c"):
        line.wait(name)
    line.wait("other", namespace="green")
    line.release(3)
    assert line.began == ["a", "b", "other", "c"]


@pytest.mark.parametrize("handed_out", [False, True])
def test_slot_of_a_cancelled_reconcile_is_released(line: Queue, handed_out: bool) -> None:
    line.wait("a")
    line.wait("b")
    if handed_out:
        line.loop.call_soon(line.slots.release)
        # Task `b` already has the slot, but its coroutine has not continued yet.
        line.loop.call_soon(line.tasks["b"].cancel)
    else:
        line.tasks["b"].cancel()
    line.settle()
    line.wait("c")
    if not handed_out:
        line.release()
    assert line.began == ["a", "c"]
