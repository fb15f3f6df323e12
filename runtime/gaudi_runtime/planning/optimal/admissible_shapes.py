"""The admissible shapes of a phase. Every admissible shape gets a bucket (docs/internals/optimal.md, Coverage)."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple, Protocol

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


class ShapeBounds(NamedTuple):
    """The smallest and the largest value of a dimension."""

    low: int
    top: int


class ShapeSpace(Protocol):
    """The space of admissible shapes of a phase; the three dimensions are those of a Bucket."""

    phase: BucketPhase

    def steps(self) -> tuple[int, int, int]:
        """Return the step of each dimension. The values of a dimension should be multiples of its step."""

    def bounds(self) -> tuple[ShapeBounds, ShapeBounds, ShapeBounds]:
        """Return the smallest and largest value of each dimension."""

    def admits(self, shape: Bucket) -> bool:
        """Return True if a batch of this shape can occur."""

    def covering_buckets(self) -> tuple[Bucket, ...]:
        """Return the fewest buckets that hold every admissible shape."""


@dataclass(frozen=True)
class PromptShapeSpace:
    """The admissible prompts: batch * query <= maxNumBatchedTokens, and a context only if prompts can have one."""

    limits: Limits
    with_context: bool
    phase = BucketPhase.PROMPT

    def steps(self) -> tuple[int, int, int]:
        """Return the steps of prompts: one sequence, the tokens of one KV block, and one block of context."""
        return 1, self.limits.block_size, 1

    def bounds(self) -> tuple[ShapeBounds, ShapeBounds, ShapeBounds]:
        """Return the smallest and largest value of each dimension of prompts."""
        return (
            ShapeBounds(1, self._most_sequences()),
            ShapeBounds(1, self._longest_query(1)),
            ShapeBounds(0, self._most_context(1)),
        )

    def admits(self, shape: Bucket) -> bool:
        """Return True if a prompt batch of this shape can occur."""
        return (
            1 <= shape.batch_size <= self._most_sequences()
            and 1 <= shape.query_len <= self._longest_query(shape.batch_size)
            and 0 <= shape.num_blocks <= self._most_context(shape.query_len)
        )

    def covering_buckets(self) -> tuple[Bucket, ...]:
        """Return the fewest buckets that hold all prompts."""
        # Above each of these batch sizes but the last, the longest query is shorter.
        sizes = [self._last_size(1)]
        while sizes[-1] < self._most_sequences():
            sizes.append(self._last_size(sizes[-1] + 1))
        sizes[-1] = self._most_sequences()
        return tuple(Bucket(size, self._longest_query(size), self._most_context(1)) for size in sizes)

    def _most_sequences(self) -> int:
        return min(self.limits.max_num_prefill_seqs, self.limits.max_num_batched_tokens)

    def _last_size(self, batch_size: int) -> int:
        """Return the largest batch size with the same longest query as `batch_size`."""
        return self.limits.max_num_batched_tokens // self._longest_query(batch_size)

    def _longest_query(self, batch_size: int) -> int:
        """Return the tokens of the longest query in a batch of this size."""
        return min(self.limits.longest_query, self.limits.max_num_batched_tokens // batch_size)

    def _most_context(self, query_len: int) -> int:
        """Return the number of KV blocks in the longest context of a query."""
        if not self.with_context:
            return 0
        # A partly filled block counts as a whole block.
        return ceil((self.limits.max_model_len - query_len) / self.limits.block_size)


@dataclass(frozen=True)
class DecodeShapeSpace:
    """The admissible decode shapes, limited by the KV blocks that sequences can reference on a device."""

    limits: Limits
    kv_blocks: int
    phase = BucketPhase.DECODE

    def steps(self) -> tuple[int, int, int]:
        """Return the steps of decode batches, which are 1 in each dimension."""
        return 1, 1, 1

    def bounds(self) -> tuple[ShapeBounds, ShapeBounds, ShapeBounds]:
        """Return the smallest and largest value of each dimension of decode batches."""
        return (
            ShapeBounds(1, self._most_sequences()),
            ShapeBounds(1, 1),
            ShapeBounds(1, self._most_blocks(self._most_sequences())),
        )

    def admits(self, shape: Bucket) -> bool:
        """Return True if a decode batch of this shape can occur."""
        return (
            1 <= shape.batch_size <= self._most_sequences()
            and shape.query_len == 1
            and shape.batch_size <= shape.num_blocks <= self._most_blocks(shape.batch_size)
        )

    def covering_buckets(self) -> tuple[Bucket, ...]:
        """Return the fewest buckets that hold all decode batches."""
        max_sequences = self._most_sequences()
        return (Bucket(max_sequences, 1, self._most_blocks(max_sequences)),)

    def _most_sequences(self) -> int:
        # Every sequence needs at least one block.
        return min(self.limits.max_num_seqs, self.kv_blocks)

    def _most_blocks(self, batch_size: int) -> int:
        return most_decode_blocks(batch_size, self.limits, self.kv_blocks)


def admissible_shape_space(phase: BucketPhase, limits: Limits, kv_blocks: int) -> ShapeSpace:
    """Return the admissible shapes of a phase, on a device with `kv_blocks` KV blocks."""
    if phase is BucketPhase.PROMPT:
        return PromptShapeSpace(limits, with_context=limits.has_context)
    return DecodeShapeSpace(limits, kv_blocks)


def holds_shape(bucket: Bucket, shape: Bucket) -> bool:
    """Return True if the bucket is at least as large as the shape in all dimensions."""
    return shape[0] <= bucket[0] and shape[1] <= bucket[1] and shape[2] <= bucket[2]
