"""DeviceThread: the one thread that all device work of an engine runs in."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from gaudi_runtime.process.worker import in_daemon_thread, settle

T = TypeVar("T")
Job = Callable[[], None]


class DeviceThread:
    """Runs one job after the other."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ended = in_daemon_thread(self._run, "torch-device")

    def call(self, work: Callable[[], T]) -> T:
        """Wait for the result or exception of `work`; not for the event loop."""
        return self._submit(work).result()

    async def call_async(self, work: Callable[[], T]) -> T:
        """The same without blocking the event loop."""
        return await asyncio.wrap_future(self._submit(work))

    async def close(self) -> None:
        """End the thread after what it has been given."""
        self._jobs.put(None)
        await asyncio.wrap_future(self._ended)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        outcome: Future[T] = Future()

        def job() -> None:
            if outcome.set_running_or_notify_cancel():
                settle(outcome, work)

        self._jobs.put(job)
        return outcome

    def _run(self) -> None:
        while job := self._jobs.get():
            job()
