"""Blocking work in a daemon thread, so that the event loop can answer probes meanwhile."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Start blocking work in a daemon thread and return the future of its result; it cannot be cancelled."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()
    # The interpreter would join the thread of a pool at exit, and a compile or a start that cannot be interrupted
    # may take longer than a pod's grace period.
    threading.Thread(target=lambda: settle(outcome, work), name=name, daemon=True).start()
    return outcome


def settle(outcome: Future[T], work: Callable[[], T]) -> None:
    """Run work in this thread and set its result or exception on the future `outcome`."""
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)


async def in_worker_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a daemon thread and await its result or exception."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def hand_on(done: Future[T]) -> None:
        if outcome.cancelled():
            return
        if error := done.exception():
            outcome.set_exception(error)
        else:
            outcome.set_result(done.result())

    # asyncio's own bridge would turn some exceptions of the work into others, CancelledError among them.
    in_daemon_thread(work, "start-up").add_done_callback(lambda done: loop.call_soon_threadsafe(hand_on, done))
    return await outcome
