"""The memory of the card: which tensors are on the card, and the bytes that the card has left.

The tensors that were explicitly moved to the card, the buffers of graphs, and the workspace take bytes.
"""

import os
import weakref
from typing import Any

import torch

TOTAL = int(os.environ.get("PLAYED_CARD_BYTES", 8 << 30))
MIB = 1 << 20
WORKSPACE = tuple(map(int, os.environ.get("PLAYED_WORKSPACE", "0,0").split(",")))
"""The workspace that the first launch of a large shape takes and keeps: its bytes, and the most elements in a result of
a launch that runs without the workspace. The default takes nothing."""


class CardMemory:
    """A counter of used bytes.

    A forward's temporary tensors do not count, because a card frees them after each forward.
    """

    def __init__(self, total: int) -> None:
        self.total, self.used = total, 0
        self._storages: set[int] = set()
        self._temporary: set[int] = set()
        self._has_workspace = False

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

    def mark(self, tensor: torch.Tensor) -> None:
        """Remember that this tensor is on the card, without counting its bytes."""
        if tensor.is_meta or self.holds(tensor):
            return
        storage = tensor.untyped_storage()
        self._temporary.add(storage._cdata)
        weakref.finalize(storage, self._temporary.discard, storage._cdata)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return True if this tensor is on the card."""
        return self.has(tensor) or tensor.untyped_storage()._cdata in self._temporary

    def launch(self, results: list[torch.Tensor]) -> None:
        """Take the workspace if this is the first launch with a large result."""
        size, limit = WORKSPACE
        if size and not self._has_workspace and any(each.numel() > limit for each in results):
            self.take(size)
            self._has_workspace = True

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
    # Do not read long lists of numbers, such as the tokens of a prompt.
    if isinstance(value, (list, tuple)) and not (value and isinstance(value[0], (int, float))):
        return [found for each in value for found in tensors(each)]
    return []
