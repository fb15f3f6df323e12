"""DeviceThread: the one thread that all device work of an engine runs in."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Job = Callable[[], None]


class DeviceThread:
    """Runs one job after the other.

    A daemon and not a pool's thread: the interpreter joins a pool at exit, and a compile can take longer than a
    pod's grace period.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="torch-device", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """Wait for the result or exception of `work`; not for the event loop."""
        return self._submit(work).result()

    async def call_async(self, work: Callable[[], T]) -> T:
        """The same without blocking the event loop."""
        return await asyncio.wrap_future(self._submit(work))

    async def close(self) -> None:
        """End the thread after what it has been given."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        outcome: Future[T] = Future()

        def job() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            try:
                outcome.set_result(work())
            except BaseException as error:  # handed on to whoever waits
                outcome.set_exception(error)

        self._jobs.put(job)
        return outcome

    def _run(self) -> None:
        while job := self._jobs.get():
            job()
