"""Plans that the current release does not make.

Those of Gaudi software 1.22, for servers that still run it (docs/bucketing.md, Release 1.22; seeds 001, 003): its
exponential ranges fill gaps that rounding leaves, and a prompt with context is planned only where context and query
together fit the token budget. And those of unified attention, where prompt and decode share one batch
(docs/bucketing.md, Unified; seed 001).
"""

from itertools import product
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan, Rule
from gaudi_runtime.buckets.planner import Sieve
from gaudi_runtime.buckets.ranges import Range, ceil_log2, exponential_fill, unified_alpha
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


def plan_1_22(limits: Limits, kv_blocks: int) -> BucketPlan:
    """The exponential plan of release 1.22. Raises PlanImpossible when a phase is empty."""
    prompt, decode = Sieve(BucketPhase.PROMPT), Sieve(BucketPhase.DECODE)
    _take_prompt(prompt, limits)
    _take_decode(decode, limits, kv_blocks)
    return BucketPlan(prompt.buckets(), decode.buckets(), dropped=prompt.dropped() + decode.dropped())


def _take_prompt(sieve: Sieve, limits: Limits) -> None:
    block, longest = limits.block_size, limits.max_model_len
    batches = _batches(limits.max_num_prefill_seqs, limits)
    queries = _fill(Range(block, block, longest, ceil_log2(longest) + 1), limits)
    for batch_size, query in product(batches, queries):
        wanted = (longest - query) // block + 1 if limits.prefix_caching else 1
        tokens = limits.max_num_batched_tokens // batch_size
        fitting = min(wanted, max(0, (tokens - query) // block + 1))
        for context in range(fitting):
            sieve.keep(Bucket(batch_size, query, context))
        if fitting < wanted:
            sieve.drop(Rule.OVER_BUDGET_WITH_CONTEXT, wanted - fitting)


def _take_decode(sieve: Sieve, limits: Limits, kv_blocks: int) -> None:
    block = limits.block_size
    blocks = _fill(Range(block, block, kv_blocks, ceil_log2(kv_blocks) + 1), limits)
    for batch_size, count in product(_batches(limits.max_num_seqs, limits), blocks):
        sieve.keep(Bucket(batch_size, 1, count))


def _batches(most: int, limits: Limits) -> list[int]:
    return _fill(Range(1, 1, most, ceil_log2(most) + 1), limits)


def _fill(r: Range, limits: Limits) -> list[int]:
    return exponential_fill(r.min, r.step, r.max, r.limit, ends_exact=limits.contiguous_paged_attention)


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
