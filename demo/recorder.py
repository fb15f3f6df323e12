"""A recorder that observes a cluster from a separate thread while a block runs."""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Recorder(ABC):
    """A recorder whose `record` runs during the block. `record` must return when `stopped` is set."""

    def __init__(self) -> None:
        """Create the recorder without starting it."""
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self.record, daemon=True)

    def __enter__(self) -> Self:
        """Start to observe."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop observing."""
        self.stopped.set()
        self._thread.join()

    @abstractmethod
    def record(self) -> None:
        """Observe until `stopped` is set."""
