"""The tensors of a model: its KV cache, and Buffers, the fixed-shape tensors of one bucket.

A captured graph reads and writes only these tensors.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.torch.scheduler import BatchRow

INDEX = torch.int64


@dataclass(frozen=True)
class Geometry:
    """The sizes of a loaded model that determine its KV cache and its buffers.

    `contiguous` means that decode reads a prefix of the cache instead of gathering blocks.
    """

    layers: int
    hidden: int
    vocabulary: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype
    contiguous: bool

    @property
    def block_bytes(self) -> int:
        """The bytes of one KV block in all layers (docs/internals/warmup.md, Memory split)."""
        key_and_value = 2 * self.kv_heads * self.head_dim * self.dtype.itemsize
        return self.layers * self.block_size * key_and_value


KVCache = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, each of shape (blocks * block_size, kv_heads, head_dim)."""


def padding_block(cache: KVCache, geometry: Geometry) -> int:
    """Return the id of the KV block that receives the padding of all buffers."""
    # Padding uses the last block. Contiguous attention reads the cache from the first block on and must read only
    # blocks of sequences.
    return cache[0][0].shape[0] // geometry.block_size - 1


def empty_cache(geometry: Geometry, kv_blocks: int, device: torch.device) -> KVCache:
    """Return the tensors of a KV cache with `kv_blocks` blocks, filled with zeros."""
    shape = (kv_blocks * geometry.block_size, geometry.kv_heads, geometry.head_dim)

    def zeros() -> torch.Tensor:
        return torch.zeros(shape, dtype=geometry.dtype, device=device)

    return [(zeros(), zeros()) for _ in range(geometry.layers)]


class Buffers(NamedTuple):
    """The fixed-shape tensors of one bucket: B rows, Q tokens per row, N KV blocks of size S.

    For a prompt, N is B * context blocks. For decode, N is the number of blocks of the whole batch.

    Inputs: `tokens` and `positions` (B, Q); `slots` (B*Q), the cache slot for the key and value of each token; `last`
    (B), the index in B*Q of each row's last token; `blocks` (N), block ids; `owners` (N), the row of each block (decode
    only); `lengths`, the number of valid tokens: in the context of each row (prompt, B) or in each block (decode, N).
    Workspace: `hidden` (B*Q, hidden); `keys` and `values` (N, S, kv heads, head dim), gathered blocks. Output: `logits`
    (B, vocabulary) in float32.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    last: Tensor
    blocks: Tensor
    owners: Tensor
    lengths: Tensor
    hidden: Tensor
    keys: Tensor
    values: Tensor
    logits: Tensor


def _layout(geometry: Geometry, phase: BucketPhase, bucket: Bucket) -> Iterator[tuple[tuple[int, ...], torch.dtype]]:
    """Return the shape and the dtype of each field of Buffers, in order."""
    rows, query, blocks = bucket
    prompt = phase is BucketPhase.PROMPT
    blocks *= rows if prompt else 1
    # Contiguous decode reads the KV cache in place, so it needs no buffer for gathered blocks.
    gathered = 0 if geometry.contiguous and not prompt else blocks
    window = (gathered, geometry.block_size, geometry.kv_heads, geometry.head_dim)
    yield from [((rows, query), INDEX)] * 2
    yield (rows * query,), INDEX
    yield (rows,), INDEX
    yield (blocks,), INDEX
    yield (0 if prompt else blocks,), INDEX
    yield (rows if prompt else blocks,), INDEX
    yield (rows * query, geometry.hidden), geometry.dtype
    yield from [(window, geometry.dtype)] * 2
    yield (rows, geometry.vocabulary), torch.float32


def buffer_bytes(geometry: Geometry, phase: BucketPhase, bucket: Bucket) -> int:
    """Return the bytes that `empty_buffers` allocates for this bucket."""
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in _layout(geometry, phase, bucket))


def empty_buffers(geometry: Geometry, phase: BucketPhase, bucket: Bucket, device: torch.device) -> Buffers:
    """Return buffers filled with zeros: each token has slot 0, and no context token is valid."""
    layout = _layout(geometry, phase, bucket)
    return Buffers(*(torch.zeros(shape, dtype=dtype, device=device) for shape, dtype in layout))


# The arrays are on the host, because numpy writes single elements much faster than torch does. Each array is then
# copied to the device in one operation.
Inputs = dict[str, NDArray[np.int64]]
"""Host copies of the inputs, by field of Buffers."""

INPUT_FIELDS = ("tokens", "positions", "slots", "last", "blocks", "owners", "lengths")


def fill_buffers(
    buffers: Buffers, phase: BucketPhase, works: tuple[BatchRow, ...], geometry: Geometry, padding: int
) -> None:
    """Write a batch into the buffers and fill the rest with padding, which uses the KV block `padding`.

    The rules are in docs/internals/torch-engine.md, Padding.
    """
    inputs = {name: np.zeros(getattr(buffers, name).shape, dtype=np.int64) for name in INPUT_FIELDS}
    inputs["slots"] += padding * geometry.block_size
    for row, work in enumerate(works):
        _fill_row(inputs, row, work, geometry.block_size)
    if phase is BucketPhase.PROMPT:
        _fill_contexts(inputs, works, geometry.block_size)
    else:
        _fill_decode(inputs, works, geometry)
    for name, array in inputs.items():
        getattr(buffers, name).copy_(torch.from_numpy(array))


def _fill_row(inputs: Inputs, row: int, work: BatchRow, block_size: int) -> None:
    query, count = inputs["tokens"].shape[1], len(work.tokens)
    positions = np.arange(work.start, work.start + count)
    blocks = np.array(work.blocks)
    inputs["tokens"][row, :count] = work.tokens
    inputs["positions"][row, :count] = positions
    slots = blocks[positions // block_size] * block_size + positions % block_size
    inputs["slots"][row * query : row * query + count] = slots
    inputs["last"][row] = row * query + count - 1


def _fill_contexts(inputs: Inputs, works: tuple[BatchRow, ...], block_size: int) -> None:
    """Write the block tables of the computed tokens row by row. Each row is as wide as the bucket's context."""
    width = len(inputs["blocks"]) // len(inputs["tokens"])
    for row, work in enumerate(works):
        used = -(-work.start // block_size)
        inputs["blocks"][row * width : row * width + used] = work.blocks[:used]
        inputs["lengths"][row] = work.start


def _fill_decode(inputs: Inputs, works: tuple[BatchRow, ...], geometry: Geometry) -> None:
    """Write the row and the token count of each block. With contiguous attention, the index is the block id."""
    end = 0
    for row, work in enumerate(works):
        blocks = np.array(work.blocks)
        start, end = end, end + len(blocks)
        entries = blocks if geometry.contiguous else np.arange(start, end)
        first_tokens = np.arange(len(blocks)) * geometry.block_size
        inputs["blocks"][entries] = blocks
        inputs["owners"][entries] = row
        inputs["lengths"][entries] = (work.start + 1 - first_tokens).clip(0, geometry.block_size)
