"""Who runs and who waits: first come, first served, bounded by batch size and KV blocks."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SimScheduler:
    """Places and KV blocks of the sim engine; used in the event loop only."""

    def __init__(self, places: int, blocks: int) -> None:
        self.running = 0
        self.used_blocks = 0
        self.total_blocks = blocks
        self._places = places
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """Sequences without a place."""
        return len(self._queue)

    @asynccontextmanager
    async def place(self, blocks: int) -> AsyncIterator[None]:
        """A place in the batch and `blocks` KV blocks, given back at the end of the block."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (blocks, turn)
        self._queue.append(entry)
        self._start_next()
        try:
            await turn
            yield
        finally:
            if entry in self._queue:
                self._queue.remove(entry)
            else:
                self.running -= 1
                self.used_blocks -= blocks
            self._start_next()

    def _start_next(self) -> None:
        while self._queue and self.running < self._places:
            blocks, turn = self._queue[0]
            if self.used_blocks + blocks > self.total_blocks:
                return
            self._queue.popleft()
            self.running += 1
            self.used_blocks += blocks
            if not turn.done():
                turn.set_result(None)
