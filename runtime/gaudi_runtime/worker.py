"""Run a blocking start-up in one worker thread, so that the event loop goes on answering probes."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_worker_thread(work: Callable[[], T]) -> T:
    """The result (or exception) of `work`, run in a daemon thread.

    A daemon and not a pool's thread: the interpreter joins a pool at exit, and a compile can take longer than a
    pod's grace period.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if outcome.cancelled():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]  # T may itself be None

    def body() -> None:
        try:
            result = work()
        except BaseException as error:  # handed on to the awaiting task
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=body, name="start-up", daemon=True).start()
    return await outcome
