"""Bucket and BucketPlan: the shapes of a server."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from gaudi_runtime.buckets.kv_blocks import most_context_blocks
from gaudi_runtime.buckets.lookup import Finder, fallback
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
