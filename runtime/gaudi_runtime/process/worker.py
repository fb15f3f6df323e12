"""Blocking work in a daemon thread, so that the event loop can answer probes in the meantime."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start_in_daemon_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Start blocking work in a daemon thread and return a future for its result. The work cannot be cancelled."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()
    # Use a daemon thread, because the interpreter joins the threads of a pool at exit. A compile or a start cannot be
    # interrupted and may take longer than the pod's grace period.
    threading.Thread(target=lambda: _run_into_future(outcome, work), name=name, daemon=True).start()
    return outcome


def _run_into_future(outcome: Future[T], work: Callable[[], T]) -> None:
    """Run the work in this thread and store its result or exception in the future `outcome`."""
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)


async def run_in_worker_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a daemon thread, wait for it without blocking the loop, and return its result."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def copy_outcome(future: Future[T]) -> None:
        if outcome.cancelled():
            return
        if error := future.exception():
            outcome.set_exception(error)
        else:
            outcome.set_result(future.result())

    # Hand on the exception ourselves, because asyncio's wrapper for futures would replace some exceptions, such as
    # CancelledError.
    start_in_daemon_thread(work, "start-up").add_done_callback(
        lambda future: loop.call_soon_threadsafe(copy_outcome, future)
    )
    return await outcome
