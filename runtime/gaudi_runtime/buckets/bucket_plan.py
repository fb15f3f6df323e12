"""BucketPlan: all buckets of a server, and the numbers of buckets that the planner dropped."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_kv_blocks
from gaudi_runtime.buckets.lookup import BucketLookup, round_up_for_lookup
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


class PlanDropRule(StrEnum):
    """The rule by which the planner dropped a bucket. The value ends the sentence "... was dropped: ...".

    See docs/internals/planning.md, Filters.
    """

    QUERY_TOO_LONG = "the query is longer than maxModelLen"
    CONTEXT_TOO_LONG = "the context has more blocks than a sequence of maxModelLen - 1 tokens needs"
    OVER_BUDGET = "batch size * query exceeds maxNumBatchedTokens"
    NOT_WHOLE_SLICES = "the query is not a multiple of PT_HPU_SDPA_BC_FACTOR"
    FEWER_BLOCKS_THAN_SEQUENCES = "the bucket has fewer KV blocks than sequences"


@dataclass(frozen=True)
class PlanDroppedBuckets:
    """The number of buckets that the planner dropped because of one rule."""

    phase: BucketPhase
    rule: PlanDropRule
    count: int


@dataclass(frozen=True)
class BucketPlan:
    """The bucket plan of a server: its buckets, sorted and distinct in each list, and warnings about the buckets.

    `seeds` are the `decode` buckets that pad the sequences of a step with drafts (speculative.py). Without speculative
    decoding, `seeds` is empty. If this plan is only the warm part of another plan (warmup/cover_first.py),
    `most_blocks` is the number of blocks of the largest decode bucket in the other plan.
    """

    prompt: tuple[Bucket, ...]
    decode: tuple[Bucket, ...]
    warnings: tuple[str, ...] = ()
    dropped: tuple[PlanDroppedBuckets, ...] = ()
    seeds: tuple[Bucket, ...] = ()
    most_blocks: int = 0

    def buckets_of(self, phase: BucketPhase) -> tuple[Bucket, ...]:
        """Return the buckets of one phase in plan order."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode

    def find(self, phase: BucketPhase, batch_size: int, query_len: int, num_blocks: int) -> Bucket | None:
        """Return the first bucket in plan order that is large enough in all three dimensions; None for a miss.

        `batch_size` is in sequences and `query_len` in tokens per sequence. `num_blocks` has the meaning of
        Bucket.num_blocks (docs/internals/planning.md, Finding a bucket).
        """
        position = self._finders[phase].find_position(batch_size, query_len, num_blocks)
        return None if position is None else self.buckets_of(phase)[position]

    def fallback(self, phase: BucketPhase, limits: Limits, batch_size: int, query_len: int, num_blocks: int) -> Bucket:
        """Return the padded shape of a batch without a bucket.

        Each dimension is rounded up and capped by the limits.
        """
        # Rounding gives similar batches the same shape. Otherwise each missed batch would cost a compilation.
        most_blocks = most_context_kv_blocks(limits)
        if phase is BucketPhase.DECODE:
            most_blocks = self.most_blocks or max(bucket.num_blocks for bucket in self.decode)
        return Bucket(
            min(round_up_for_lookup(batch_size, base=2), limits.max_num_seqs),
            min(round_up_for_lookup(query_len, base=32), limits.max_num_batched_tokens),
            min(round_up_for_lookup(num_blocks, base=32), most_blocks),
        )

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of both bucket lists as compact JSON, in 64 hex digits."""
        text = json.dumps([self.prompt, self.decode], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _finders(self) -> dict[BucketPhase, BucketLookup]:
        return {phase: BucketLookup(self.buckets_of(phase)) for phase in BucketPhase}
