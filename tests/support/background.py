"""Background tasks of a test."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """Tasks that run until `stop`. `failures` contains the errors of tasks that ended before `stop`."""

    def __init__(self) -> None:
        """Start without tasks."""
        self.failures: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """Raise the first failure if a task has failed."""
        if self.failures:
            raise self.failures[0]

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.failures.append(error)
