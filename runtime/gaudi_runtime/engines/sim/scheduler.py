"""Who runs and who waits: first come, first served, bounded by batch size and KV blocks."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Seat:
    """The place of one sequence: `reserved` KV blocks for its whole life, `blocks` that it fills now."""

    def __init__(self, reserved: int) -> None:
        self.reserved = reserved
        self.blocks = 0


class SimScheduler:
    """Places and KV blocks of the sim engine; used in the event loop only."""

    def __init__(self, places: int, blocks: int) -> None:
        self.total_blocks = blocks
        self._places = places
        self._seats: set[Seat] = set()
        self._queue: deque[tuple[Seat, asyncio.Future[None]]] = deque()

    @property
    def running(self) -> int:
        """Sequences with a place."""
        return len(self._seats)

    @property
    def waiting(self) -> int:
        """Sequences without a place."""
        return len(self._queue)

    @property
    def used_blocks(self) -> int:
        """KV blocks that running sequences have reserved."""
        return sum(seat.reserved for seat in self._seats)

    @property
    def filled_blocks(self) -> int:
        """KV blocks that the whole batch references now."""
        return sum(seat.blocks for seat in self._seats)

    @asynccontextmanager
    async def place(self, blocks: int) -> AsyncIterator[Seat]:
        """A place in the batch and `blocks` KV blocks, given back at the end of the block."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        seat = Seat(blocks)
        entry = (seat, turn)
        self._queue.append(entry)
        self._start_next()
        try:
            await turn
            yield seat
        finally:
            if entry in self._queue:
                self._queue.remove(entry)
            self._seats.discard(seat)
            self._start_next()

    def _start_next(self) -> None:
        while self._queue and self.running < self._places:
            seat, turn = self._queue[0]
            if self.used_blocks + seat.reserved > self.total_blocks:
                return
            self._queue.popleft()
            self._seats.add(seat)
            if not turn.done():
                turn.set_result(None)
