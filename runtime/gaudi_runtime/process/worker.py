"""Blocking work in a daemon thread of its own, so that the event loop goes on answering probes."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], name: str) -> Future[T]:
    """What will be the result (or exception) of `work`, which begins at once; it cannot be cancelled."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()
    # A daemon and not a pool's thread: the interpreter joins a pool at exit, and a compile or a start that cannot be
    # interrupted may take longer than a pod's grace period.
    threading.Thread(target=lambda: settle(outcome, work), name=name, daemon=True).start()
    return outcome


def settle(outcome: Future[T], work: Callable[[], T]) -> None:
    """Do `work` in this thread, and hand on its result or exception to whoever waits for `outcome`."""
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)


async def in_worker_thread(work: Callable[[], T]) -> T:
    """The result (or exception) of `work`, run in a daemon thread."""
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
