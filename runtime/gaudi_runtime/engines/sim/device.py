"""The memory of a simulated card: bytes that are only counted."""

from gaudi_runtime.engines.protocol import DeviceMemory
from gaudi_runtime.errors import DeviceOutOfMemory


class SimMemory:
    """`total` bytes, of which some are used. All amounts in bytes."""

    def __init__(self, total: int) -> None:
        self._total, self._used = total, 0

    def use(self, size: int) -> None:
        """Take `size` bytes. Raises DeviceOutOfMemory when they are not free."""
        if self._used + size > self._total:
            raise DeviceOutOfMemory(f"{size} bytes wanted, {self._total - self._used} are free")
        self._used += size

    def now(self) -> DeviceMemory:
        """Free and total."""
        return DeviceMemory(free=self._total - self._used, total=self._total)
