"""Bytes of the card: of what was put on it by name, and of what its graphs keep."""

import os
import weakref
from typing import Any

import torch

TOTAL = int(os.environ.get("PLAYED_CARD_BYTES", 8 << 30))
MIB = 1 << 20


class CardMemory:
    """What the kernels of a forward take meanwhile does not count: a card frees it after each."""

    def __init__(self, total: int) -> None:
        self.total, self.used = total, 0
        self._storages: set[int] = set()

    @property
    def free(self) -> int:
        """Bytes."""
        return self.total - self.used

    def take(self, size: int) -> None:
        """Raises RuntimeError, in the words of the bridge, when so many bytes are not free."""
        if size > self.free:
            raise RuntimeError(f"[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::{size // MIB} MB")
        self.used += size

    def put(self, tensor: torch.Tensor) -> None:
        """This tensor is on the card for as long as its storage lives."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if tensor.is_meta or key in self._storages:
            return
        self.take(storage.nbytes())
        self._storages.add(key)
        weakref.finalize(storage, self._gone, key, storage.nbytes())

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor was put here, as weights and the KV cache are."""
        return tensor.untyped_storage()._cdata in self._storages

    def _gone(self, key: int, size: int) -> None:
        self._storages.discard(key)
        self.used -= size


MEMORY = CardMemory(TOTAL)


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors inside of arguments or results."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return tensors(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in tensors(each)]
    return []
