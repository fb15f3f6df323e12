"""How far a fetch is, told by several threads and published about a thousand times at most."""

import threading
from collections.abc import Callable

from gaudi_runtime.contract.report import FetchProgress

STEPS = 1000


class Progress:
    """`publish` gets the figures; `alive` is called for each piece, and may raise to end the fetch."""

    def __init__(self, publish: Callable[[FetchProgress], None], alive: Callable[[], None]) -> None:
        self._publish, self.alive = publish, alive
        self._lock = threading.Lock()
        self._total = 0
        self._waiting = False
        self.done = 0

    def begin(self, total: int, done: int) -> None:
        """`total` bytes are wanted and `done` of them are here."""
        with self._lock:
            self._total, self.done = total, done
        self._publish(FetchProgress(done_bytes=done, total_bytes=total))

    def add(self, count: int) -> None:
        """`count` bytes came; below 0, so many were thrown away."""
        self.alive()
        with self._lock:
            before, self.done = self.done, self.done + count
            done, total = self.done, self._total
        if total and before * STEPS // total != done * STEPS // total:
            self._publish(FetchProgress(done_bytes=done, total_bytes=total))

    def others(self, here: int) -> None:
        """Another process fetches the same; `here` bytes of it are on disk. Standstill counts as standstill."""
        if here != self.done or not self._waiting:
            self.done, self._waiting = here, True
            self._publish(FetchProgress(done_bytes=here, waiting=True))
