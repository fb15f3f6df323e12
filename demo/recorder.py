"""Looks at a cluster from a thread of its own while a block runs."""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Recorder(ABC):
    """`record` runs from enter to exit, and returns once `done` is set."""

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self.done = threading.Event()
        self._thread = threading.Thread(target=self.record, daemon=True)

    def __enter__(self) -> Self:
        """Start to look."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look no more."""
        self.done.set()
        self._thread.join()

    @abstractmethod
    def record(self) -> None:
        """Look until `done` is set."""
