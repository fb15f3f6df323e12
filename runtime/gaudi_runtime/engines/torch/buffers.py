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

    `contiguous_attention` means that decode reads a prefix of the cache instead of gathering blocks.
    """

    layer_count: int
    hidden_size: int
    vocabulary_size: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype
    contiguous_attention: bool

    @property
    def block_bytes(self) -> int:
        """The bytes of one KV block in all layers (docs/internals/warmup.md, Memory split)."""
        key_and_value = 2 * self.kv_heads * self.head_dim * self.dtype.itemsize
        return self.layer_count * self.block_size * key_and_value


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

    return [(zeros(), zeros()) for _ in range(geometry.layer_count)]


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
    batch_size, query_len, blocks = bucket
    is_prompt = phase is BucketPhase.PROMPT
    blocks *= batch_size if is_prompt else 1
    # Contiguous decode reads the KV cache in place, so it needs no buffer for gathered blocks.
    gathered_blocks = 0 if geometry.contiguous_attention and not is_prompt else blocks
    window_shape = (gathered_blocks, geometry.block_size, geometry.kv_heads, geometry.head_dim)
    yield from [((batch_size, query_len), INDEX)] * 2
    yield (batch_size * query_len,), INDEX
    yield (batch_size,), INDEX
    yield (blocks,), INDEX
    yield (0 if is_prompt else blocks,), INDEX
    yield (batch_size if is_prompt else blocks,), INDEX
    yield (batch_size * query_len, geometry.hidden_size), geometry.dtype
    yield from [(window_shape, geometry.dtype)] * 2
    yield (batch_size, geometry.vocabulary_size), torch.float32


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
    buffers: Buffers, phase: BucketPhase, rows: tuple[BatchRow, ...], geometry: Geometry, padding_id: int
) -> None:
    """Write a batch into the buffers and fill the rest with padding, which uses the KV block `padding_id`.

    The rules are in docs/internals/torch-engine.md, Padding.
    """
    inputs = {name: np.zeros(getattr(buffers, name).shape, dtype=np.int64) for name in INPUT_FIELDS}
    inputs["slots"] += padding_id * geometry.block_size
    for index, row in enumerate(rows):
        _fill_row(inputs, index, row, geometry.block_size)
    if phase is BucketPhase.PROMPT:
        _fill_contexts(inputs, rows, geometry.block_size)
    else:
        _fill_decode(inputs, rows, geometry)
    for name, array in inputs.items():
        getattr(buffers, name).copy_(torch.from_numpy(array))


def _fill_row(inputs: Inputs, index: int, row: BatchRow, block_size: int) -> None:
    query_len, token_count = inputs["tokens"].shape[1], len(row.tokens)
    positions = np.arange(row.start, row.start + token_count)
    blocks = np.array(row.blocks)
    inputs["tokens"][index, :token_count] = row.tokens
    inputs["positions"][index, :token_count] = positions
    slots = blocks[positions // block_size] * block_size + positions % block_size
    inputs["slots"][index * query_len : index * query_len + token_count] = slots
    inputs["last"][index] = index * query_len + token_count - 1


def _fill_contexts(inputs: Inputs, rows: tuple[BatchRow, ...], block_size: int) -> None:
    """Write the block tables of the computed tokens row by row. Each row is as wide as the bucket's context."""
    width = len(inputs["blocks"]) // len(inputs["tokens"])
    for index, row in enumerate(rows):
        used_blocks = -(-row.start // block_size)
        inputs["blocks"][index * width : index * width + used_blocks] = row.blocks[:used_blocks]
        inputs["lengths"][index] = row.start


def _fill_decode(inputs: Inputs, rows: tuple[BatchRow, ...], geometry: Geometry) -> None:
    """Write the row and the token count of each block. With contiguous attention, a block's entry is at its id."""
    end = 0
    for index, row in enumerate(rows):
        blocks = np.array(row.blocks)
        start, end = end, end + len(blocks)
        entries = blocks if geometry.contiguous_attention else np.arange(start, end)
        first_tokens = np.arange(len(blocks)) * geometry.block_size
        inputs["blocks"][entries] = blocks
        inputs["owners"][entries] = index
        inputs["lengths"][entries] = (row.start + 1 - first_tokens).clip(0, geometry.block_size)
