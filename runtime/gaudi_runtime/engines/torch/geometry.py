"""Geometry: the sizes of a loaded model that shape its cache and its buffers."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Geometry:
    """Sizes of one rank; `contiguous` means that decode reads a prefix of the cache instead of gathering blocks."""

    layers: int
    hidden: int
    vocabulary: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype
    contiguous: bool

    @property
    def token_kv_bytes(self) -> int:
        """Bytes of one token's key and value in one layer."""
        return 2 * self.kv_heads * self.head_dim * self.dtype.itemsize

    @property
    def block_bytes(self) -> int:
        """Bytes of one KV block over all layers (docs/warmup.md, Memory split)."""
        return self.layers * self.block_size * self.token_kv_bytes


KVCache = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer keys and values, each of shape (blocks * block_size, kv_heads, head_dim)."""


def padding_block(cache: KVCache, geometry: Geometry) -> int:
    """The block that padding is written to: the last, so that a prefix of the cache holds sequences only."""
    return cache[0][0].shape[0] // geometry.block_size - 1


def empty_cache(geometry: Geometry, kv_blocks: int, device: torch.device) -> KVCache:
    """A cache of zeros for `kv_blocks` blocks."""
    shape = (kv_blocks * geometry.block_size, geometry.kv_heads, geometry.head_dim)

    def zeros() -> torch.Tensor:
        return torch.zeros(shape, dtype=geometry.dtype, device=device)

    return [(zeros(), zeros()) for _ in range(geometry.layers)]
