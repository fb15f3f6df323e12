"""The memory of the card. It contains the tensors that were explicitly moved to the card, and the buffers of graphs."""

import os
import weakref
from typing import Any

import torch

TOTAL = int(os.environ.get("PLAYED_CARD_BYTES", 8 << 30))
MIB = 1 << 20


class CardMemory:
    """A counter of used bytes.

    A forward's temporary tensors do not count, because a card frees them after each forward.
    """

    def __init__(self, total: int) -> None:
        self.total, self.used = total, 0
        self._storages: set[int] = set()

    @property
    def free(self) -> int:
        """The number of free bytes."""
        return self.total - self.used

    def take(self, size: int) -> None:
        """Allocate bytes. Raises RuntimeError with the bridge's message if not enough bytes are free."""
        if size > self.free:
            raise RuntimeError(f"[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::{size // MIB} MB")
        self.used += size

    def put(self, tensor: torch.Tensor) -> None:
        """Count the bytes of this tensor while the storage of the tensor exists."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if tensor.is_meta or key in self._storages:
            return
        self.take(storage.nbytes())
        self._storages.add(key)
        weakref.finalize(storage, self._gone, key, storage.nbytes())

    def has(self, tensor: torch.Tensor) -> bool:
        """Return True if the memory counts this tensor. Weights and the KV cache are counted."""
        return tensor.untyped_storage()._cdata in self._storages

    def _gone(self, key: int, size: int) -> None:
        self._storages.discard(key)
        self.used -= size


MEMORY = CardMemory(TOTAL)


def tensors(value: Any) -> list[torch.Tensor]:
    """Return all tensors in the arguments or results, including nested tensors."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return tensors(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in tensors(each)]
    return []
