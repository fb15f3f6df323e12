"""A worker with any number of changes waits for the earliest due change."""

import asyncio
from collections.abc import Callable

from gaudi_operator.shell.reconciling.worker import ReconcileWorker
from tests.world.loop import Loop


def waited(seconds: float | None, *changes: Callable[[ReconcileWorker], None], after_failure: bool = False) -> float:
    """Return how many seconds a worker waits after these changes, in its back-off if the reconcile failed."""

    async def wait() -> float:
        worker = ReconcileWorker()
        for change in changes:
            change(worker)
        await (worker.back_off(seconds or 0) if after_failure else worker.wait(seconds))
        return asyncio.get_running_loop().time()

    loop = Loop()
    took = loop.run_until_complete(wait())
    loop.close()
    return took


def test_wait_ends_after_its_delay() -> None:
    assert waited(60) == 60


def test_earliest_change_ends_the_wait() -> None:
    assert waited(60, lambda worker: worker.wake(5), lambda worker: worker.wake(1), lambda worker: worker.wake(3)) == 1


def test_urgent_change_ends_the_wait() -> None:
    assert waited(60, lambda worker: worker.wake(0)) == 0


def test_own_write_alone_does_not_end_the_wait() -> None:
    assert waited(60, lambda worker: worker.wake(0, 7), lambda worker: worker.ignore_versions([7])) == 60


def test_own_write_with_another_change_ends_the_wait() -> None:
    assert (
        waited(60, lambda worker: worker.wake(0, 7), lambda worker: worker.wake(0), lambda w: w.ignore_versions([7]))
        == 0
    )


def test_reconcile_consumes_all_earlier_changes() -> None:
    assert waited(60, lambda worker: worker.wake(0), lambda worker: worker.wake(1), lambda w: w.mark_started()) == 60


def test_only_a_closing_gate_ends_a_back_off() -> None:
    assert waited(10, lambda worker: worker.wake(0), after_failure=True) == 10
    assert waited(10, lambda worker: worker.end_back_off(), after_failure=True) == 0


def test_back_off_after_the_gate_was_closed_is_not_shortened() -> None:
    assert waited(10, ReconcileWorker.end_back_off, ReconcileWorker.mark_started, after_failure=True) == 10
