"""Bucket and BucketPlan: the shapes of a server, and the lookup of the one that a batch is padded to.

A batch that has no bucket is rounded up by `fallback` (docs/internals/bucketing.md, Misses).

The first bucket that holds a batch is found by bisection: a plan is sorted by (batch size, query, blocks), so it falls
into one row per batch size, and a row into one run of blocks per query length. Most lookups end in the first row and
run they touch.
"""

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, groupby
from operator import itemgetter
from typing import NamedTuple

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


class Rule(StrEnum):
    """Why a bucket is not in the plan (docs/internals/bucketing.md, Filters): ends "... was dropped: ..."."""

    QUERY_TOO_LONG = "its query is longer than maxModelLen"
    CONTEXT_TOO_LONG = "its context has more blocks than a sequence of maxModelLen - 1 tokens needs"
    OVER_BUDGET = "its tokens (batch size * query) exceed maxNumBatchedTokens"
    OVER_BUDGET_WITH_CONTEXT = "its tokens, context included, exceed maxNumBatchedTokens"
    NOT_WHOLE_SLICES = "its query is not a multiple of slidingWindowSlices.tokens"
    FEWER_BLOCKS_THAN_SEQUENCES = "it has fewer KV blocks than sequences"


def most_context_blocks(limits: Limits) -> int:
    """Blocks of the longest context that a prompt token can have."""
    return math.ceil((limits.max_model_len - 1) / limits.block_size)


def context_room(limits: Limits) -> int:
    """Tokens that the new tokens of a prompt and its context, in whole blocks, share."""
    if not limits.has_context:
        return limits.longest_query
    # A later piece of a split prompt may begin within a block, which then counts for a single token.
    return limits.max_model_len + (limits.block_size - 1 if limits.splits_prompts else 0)


def most_context_of(limits: Limits, query: int) -> int:
    """The most context in blocks that a prompt with `query` new tokens can have."""
    return (context_room(limits) - query) // limits.block_size if limits.has_context else 0


@dataclass(frozen=True)
class DeviceBlocks:
    """The KV blocks of a device as its engine has them: `count` of `size` tokens.

    Decode batches may count smaller ones, of `decode_size` tokens. `bounded` says that such a batch refers to at most
    three times the blocks that exist. Queries of prompts are multiples of `query_step` tokens.
    """

    count: int
    size: int
    decode_size: int
    bounded: bool = True
    query_step: int = 1

    @classmethod
    def as_asked(cls, count: int, limits: Limits) -> "DeviceBlocks":
        """As the limits say, which is what an engine has of most models."""
        return cls(count, limits.block_size, limits.block_size)

    def limits(self, asked: Limits) -> Limits:
        """The limits with the blocks that there are."""
        return asked if asked.block_size == self.size else asked.model_copy(update={"block_size": self.size})


def clamp_blocks(limits: Limits, batch_size: int, num_blocks: int) -> int:
    """Blocks of a decode bucket, at most what `batch_size` full sequences can reference."""
    # With contiguous attention a batch reads up to the highest block in use, wherever it lies.
    if limits.contiguous_paged_attention:
        return num_blocks
    return min(num_blocks, batch_size * math.ceil(limits.max_model_len / limits.block_size))


def most_decode_blocks(size: int, limits: Limits, kv_blocks: int) -> int:
    """KV blocks that `size` sequences can make a decode batch read, on a device with `kv_blocks`."""
    # With contiguous paged attention a prefix of the cache that ends with the highest block in use, wherever it lies.
    if limits.contiguous_paged_attention:
        return kv_blocks
    most = size * math.ceil(limits.max_model_len / limits.block_size)
    # Sequences that share cached blocks reference them once each, so a batch may read more than there are: up to three
    # times as many by the rule of the plugin's own planner.
    return min(most, SHARED_BLOCKS * kv_blocks if limits.prefix_caching else kv_blocks)


SHARED_BLOCKS = 3
"""How often a decode batch may read the blocks of the device, where sequences share them."""


def fallback(value: int, base: int) -> int:
    """Round `value` up to a multiple of ceil(cube root of value) * base; 0 and 1 stay."""
    if value <= 1:
        return value
    # The cube root makes the rounding coarser for larger values, so few distinct shapes arise.
    step = _ceil_cube_root(value) * base
    return -(-value // step) * step


def _ceil_cube_root(value: int) -> int:
    # Of whole numbers: the root of a float may be a little off, and one more would be another shape than the plugin's.
    root = round(math.cbrt(value))
    return root if root**3 >= value else root + 1


Triple = tuple[int, int, int]


class _Row:
    """All buckets of one batch size."""

    def __init__(self, first: int, buckets: Sequence[Triple]) -> None:
        self.queries: list[int] = []
        self.runs: list[list[int]] = []
        self.starts: list[int] = []
        for query, run in groupby(buckets, key=itemgetter(1)):
            self.queries.append(query)
            self.runs.append([bucket[2] for bucket in run])
            self.starts.append(first)
            first += len(self.runs[-1])
        self.most_from = _largest_from([run[-1] for run in self.runs])

    def first(self, query: int, blocks: int) -> int | None:
        at = bisect_left(self.queries, query)
        if at == len(self.queries) or self.most_from[at] < blocks:
            return None
        while self.runs[at][-1] < blocks:
            at += 1
        return self.starts[at] + bisect_left(self.runs[at], blocks)


class Finder:
    """Answers lookups for one sorted list of distinct (batch size, query, blocks)."""

    def __init__(self, buckets: Sequence[Triple]) -> None:
        self._batches: list[int] = []
        self._rows: list[_Row] = []
        first = 0
        for batch, group in groupby(buckets, key=itemgetter(0)):
            row = list(group)
            self._batches.append(batch)
            self._rows.append(_Row(first, row))
            first += len(row)
        self._most_from = _largest_from([row.most_from[0] for row in self._rows])

    def first(self, batch: int, query: int, blocks: int) -> int | None:
        """Position of the first bucket that is >= in all three dimensions, None when there is none."""
        for at in range(bisect_left(self._batches, batch), len(self._rows)):
            if self._most_from[at] < blocks:
                return None
            found = self._rows[at].first(query, blocks)
            if found is not None:
                return found
        return None


def _largest_from(values: Sequence[int]) -> list[int]:
    """At every position the largest value from there to the end."""
    # So that a search knows when to give up.
    return list(accumulate(reversed(values), max))[::-1]


class Bucket(NamedTuple):
    """A padded shape. Prompt: `num_blocks` is the cached context per sequence; decode: the blocks of the batch."""

    batch_size: int
    query_len: int
    num_blocks: int


@dataclass(frozen=True)
class Dropped:
    """How many candidate buckets a rule kept out of a plan."""

    phase: BucketPhase
    rule: Rule
    count: int


@dataclass(frozen=True)
class BucketPlan:
    """All buckets of a server, each list sorted and distinct, and what the planner has to say about them.

    `seeds` are those of `decode` by which the sequences of a step with drafts are padded (speculative.py); none without
    speculative decoding. `most_blocks` are those of the largest decode bucket of the whole plan, if this is the warm
    part of one (warmup/cover_first.py).
    """

    prompt: tuple[Bucket, ...]
    decode: tuple[Bucket, ...]
    warnings: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    seeds: tuple[Bucket, ...] = ()
    most_blocks: int = 0

    def of(self, phase: BucketPhase) -> tuple[Bucket, ...]:
        """The buckets of one phase in plan order."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode

    def find(self, phase: BucketPhase, batch: int, query: int, blocks: int) -> Bucket | None:
        """First bucket in plan order that is >= in all three dimensions; None for a miss. Changes nothing.

        batch in sequences, query in tokens per sequence, blocks as in Bucket (docs/internals/bucketing.md, Finding a
        bucket).
        """
        position = self._finders[phase].first(batch, query, blocks)
        return None if position is None else self.of(phase)[position]

    def fallback(self, phase: BucketPhase, limits: Limits, batch: int, query: int, blocks: int) -> Bucket:
        """The shape for a batch without a bucket: each dimension rounded up and capped by what can ever be needed."""
        # Rounding makes similar misses share one shape, so that each costs no compile of its own.
        most_blocks = most_context_blocks(limits)
        if phase is BucketPhase.DECODE:
            most_blocks = self.most_blocks or max(bucket.num_blocks for bucket in self.decode)
        return Bucket(
            min(fallback(batch, base=2), limits.max_num_seqs),
            min(fallback(query, base=32), limits.max_num_batched_tokens),
            min(fallback(blocks, base=32), most_blocks),
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 over both lists as compact JSON, 64 hex digits."""
        text = json.dumps([self.prompt, self.decode], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _finders(self) -> dict[BucketPhase, Finder]:
        return {phase: Finder(self.of(phase)) for phase in BucketPhase}


def weight(phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
    """What the bytes of a bucket's graph are proportional to: tokens with context for prompt, sequences for decode.

    `block_size` is in tokens per KV block.
    """
    if phase is BucketPhase.DECODE:
        return bucket.batch_size
    return bucket.batch_size * (bucket.query_len + bucket.num_blocks * block_size)
