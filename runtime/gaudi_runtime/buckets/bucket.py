"""Bucket and BucketPlan: the shapes of a server, and the lookup of the one that a batch is padded to."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gaudi_runtime.buckets.fallback import fallback
from gaudi_runtime.buckets.filters import Rule, most_context_blocks
from gaudi_runtime.buckets.finder import Finder
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


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
    """All buckets of a server, each list sorted and distinct, and what the planner has to say about them."""

    prompt: tuple[Bucket, ...]
    decode: tuple[Bucket, ...]
    warnings: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    def of(self, phase: BucketPhase) -> tuple[Bucket, ...]:
        """The buckets of one phase in plan order."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode

    def find(self, phase: BucketPhase, batch: int, query: int, blocks: int) -> Bucket | None:
        """First bucket in plan order that is >= in all three dimensions; None for a miss. Changes nothing.

        batch in sequences, query in tokens per sequence, blocks as in Bucket (docs/bucketing.md, Finding a bucket).
        """
        finder = self._prompt_finder if phase is BucketPhase.PROMPT else self._decode_finder
        position = finder.first(batch, query, blocks)
        return None if position is None else self.of(phase)[position]

    def fallback(self, phase: BucketPhase, limits: Limits, batch: int, query: int, blocks: int) -> Bucket:
        """The shape for a batch without a bucket: each dimension rounded up and capped by what can ever be needed.

        Rounding makes similar misses share one shape, so that each costs no compile of its own
        (docs/bucketing.md, Misses).
        """
        most_blocks = most_context_blocks(limits)
        if phase is BucketPhase.DECODE:
            most_blocks = max(bucket.num_blocks for bucket in self.decode)
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
    def _prompt_finder(self) -> Finder:
        return Finder(self.prompt)

    @cached_property
    def _decode_finder(self) -> Finder:
        return Finder(self.decode)


def weight(phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
    """What the bytes of a bucket's graph are proportional to: tokens with context for prompt, sequences for decode.

    `block_size` is in tokens per KV block.
    """
    if phase is BucketPhase.DECODE:
        return bucket.batch_size
    return bucket.batch_size * (bucket.query_len + bucket.num_blocks * block_size)
