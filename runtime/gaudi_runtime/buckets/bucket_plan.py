"""BucketPlan: all buckets of a server as a value, with the buckets that the planner dropped."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_blocks
from gaudi_runtime.buckets.lookup import Finder, fallback
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


class Rule(StrEnum):
    """The reason why a bucket is not in a bucket plan. The value ends the sentence "... was dropped: ...".

    See docs/internals/bucketing.md, Filters.
    """

    QUERY_TOO_LONG = "its query is longer than maxModelLen"
    CONTEXT_TOO_LONG = "its context has more blocks than a sequence of maxModelLen - 1 tokens needs"
    OVER_BUDGET = "its tokens (batch size * query) exceed maxNumBatchedTokens"
    OVER_BUDGET_WITH_CONTEXT = "its tokens, context included, exceed maxNumBatchedTokens"
    NOT_WHOLE_SLICES = "its query is not a multiple of slidingWindowSlices.tokens"
    FEWER_BLOCKS_THAN_SEQUENCES = "it has fewer KV blocks than sequences"


@dataclass(frozen=True)
class Dropped:
    """The number of buckets that are not in a bucket plan because of one rule."""

    phase: BucketPhase
    rule: Rule
    count: int


@dataclass(frozen=True)
class BucketPlan:
    """The plan of a server as a value: all its buckets, each list sorted and distinct, and warnings about them.

    `seeds` are the `decode` buckets that pad the sequences of a step with drafts (speculative.py); empty without
    speculative decoding. If this is only the warm part of a plan (warmup/cover_first.py), `most_blocks` is the number
    of blocks of the largest decode bucket in the whole plan.
    """

    prompt: tuple[Bucket, ...]
    decode: tuple[Bucket, ...]
    warnings: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    seeds: tuple[Bucket, ...] = ()
    most_blocks: int = 0

    def buckets_of(self, phase: BucketPhase) -> tuple[Bucket, ...]:
        """Return the buckets of one phase in plan order."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode

    def find(self, phase: BucketPhase, batch: int, query: int, blocks: int) -> Bucket | None:
        """Return the first bucket in plan order that is >= in all three dimensions; None for a miss.

        `batch` is in sequences, `query` in tokens per sequence, `blocks` as in Bucket (docs/internals/bucketing.md,
        Finding a bucket).
        """
        position = self._finders[phase].first(batch, query, blocks)
        return None if position is None else self.buckets_of(phase)[position]

    def fallback(self, phase: BucketPhase, limits: Limits, batch: int, query: int, blocks: int) -> Bucket:
        """Return the padded shape of a batch without a bucket: each dimension rounded up, and capped by the limits."""
        # Rounding lets similar misses share one shape, so that not each of them costs a compile.
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
        """Return the SHA-256 digest of both bucket lists as compact JSON, 64 hex digits."""
        text = json.dumps([self.prompt, self.decode], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _finders(self) -> dict[BucketPhase, Finder]:
        return {phase: Finder(self.buckets_of(phase)) for phase in BucketPhase}
