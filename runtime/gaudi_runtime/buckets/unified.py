"""Buckets of unified attention, where prompt and decode share one batch (docs/bucketing.md, Unified; seed 001)."""

from itertools import product
from typing import NamedTuple

from gaudi_runtime.buckets.ranges import unified_alpha
from gaudi_runtime.contract.bucketing import Limits


class UnifiedBucket(NamedTuple):
    """A padded mixed batch: tokens, KV blocks used by several sequences, KV blocks used by one, causal 0 or 1."""

    query: int
    shared: int
    unique: int
    causal: int


def plan_unified(limits: Limits, kv_blocks: int) -> tuple[UnifiedBucket, ...]:
    """All unified buckets, sorted and distinct; `kv_blocks` are those that exist on the device."""
    seqs = limits.max_num_seqs
    queries = unified_alpha(limits.block_size, seqs, limits.max_num_batched_tokens)
    shared = unified_alpha(0, seqs, limits.max_model_len // limits.block_size * seqs)
    unique = unified_alpha(0, seqs, kv_blocks)
    candidates = (UnifiedBucket(*values) for values in product(queries, shared, unique, (0, 1)))
    return tuple(bucket for bucket in candidates if bucket.query > 0 and _possible(bucket, limits))


def _possible(bucket: UnifiedBucket, limits: Limits) -> bool:
    """Whether a batch of this shape can arise: no sequence may reference more than its model length."""
    query, shared, unique, causal = bucket
    tokens = shared * limits.block_size
    if causal:
        return tokens // min(limits.max_num_seqs, query) <= limits.max_model_len
    if query > limits.max_num_seqs or shared + unique == 0:
        return False
    return shared == 0 or (query > 1 and tokens // (query // 2) <= limits.max_model_len)
