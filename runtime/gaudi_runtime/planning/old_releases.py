"""Bucket plans of old releases, for servers that still run these releases, and for comparisons.

- Plans of Gaudi software 1.22 (docs/internals/bucketing.md, Release 1.22; logs 001, 003). Its exponential ranges fill
  gaps that rounding leaves. A prompt bucket with context is planned only if context and query together fit the token
  budget.
- Plans of unified attention, where prompt and decode share one batch (docs/internals/bucketing.md, Unified; log 001).
"""

from itertools import product
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan, DropRule
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import BucketFilter, plan_from_filters
from gaudi_runtime.planning.ranges import Range, ceil_log2, geometric_points, next_multiple


def plan_1_22(limits: Limits, kv_blocks: int) -> BucketPlan:
    """Make the exponential plan of Gaudi software 1.22. Raises PlanImpossible if a phase is empty."""
    prompt, decode = BucketFilter(BucketPhase.PROMPT), BucketFilter(BucketPhase.DECODE)
    _filter_prompt_ranges(prompt, limits)
    _filter_decode_ranges(decode, limits, kv_blocks)
    return plan_from_filters(prompt, decode)


def _filter_prompt_ranges(sieve: BucketFilter, limits: Limits) -> None:
    block, longest = limits.block_size, limits.max_model_len
    batches = _batch_sizes(limits.max_num_prefill_seqs, limits)
    queries = _fill_range(Range(block, block, longest, ceil_log2(longest) + 1), limits)
    for batch_size, query in product(batches, queries):
        asked = (longest - query) // block + 1 if limits.prefix_caching else 1
        tokens = limits.max_num_batched_tokens // batch_size
        fitting = min(asked, max(0, (tokens - query) // block + 1))
        for context in range(fitting):
            sieve.keep(Bucket(batch_size, query, context))
        if fitting < asked:
            sieve.drop(DropRule.OVER_BUDGET_WITH_CONTEXT, asked - fitting)


def _filter_decode_ranges(sieve: BucketFilter, limits: Limits, kv_blocks: int) -> None:
    block = limits.block_size
    blocks = _fill_range(Range(block, block, kv_blocks, ceil_log2(kv_blocks) + 1), limits)
    for batch_size, count in product(_batch_sizes(limits.max_num_seqs, limits), blocks):
        sieve.keep(Bucket(batch_size, 1, count))


def _batch_sizes(most: int, limits: Limits) -> list[int]:
    return _fill_range(Range(1, 1, most, ceil_log2(most) + 1), limits)


def _fill_range(r: Range, limits: Limits) -> list[int]:
    return exponential_fill(r.min, r.step, r.max, r.limit, ends_exact=limits.contiguous_paged_attention)


def exponential_fill(minimum: int, step: int, maximum: int, limit: int, *, ends_exact: bool) -> list[int]:
    """Return the exponential values of release 1.22.

    If a rounded value is already used, the nearest unused multiple of the step replaces it.
    """
    if limit <= 1:
        return [maximum]
    points = geometric_points(minimum, maximum, limit)
    free = set(range(next_multiple(minimum, step), maximum + 1, step))
    values: set[int] = set()
    for position, point in enumerate(points):
        last = position == limit - 1
        value = maximum if last and ends_exact else next_multiple(point, step)
        # If rounding maps two points to the same value, the nearest unused multiple is used. Otherwise the range would
        # have fewer than `limit` values.
        if value in values and free:
            value = min(free, key=lambda candidate: (abs(candidate - point), candidate))
        values.add(value)
        free.discard(value)
    return sorted(values)


class UnifiedBucket(NamedTuple):
    """A padded mixed batch of old releases: tokens, shared KV blocks, unshared KV blocks, and causal 0 or 1."""

    query: int
    shared: int
    unique: int
    causal: int


def plan_unified(limits: Limits, kv_blocks: int) -> tuple[UnifiedBucket, ...]:
    """Return all unified buckets of old releases, sorted and distinct, on a device with `kv_blocks` KV blocks."""
    seqs = limits.max_num_seqs
    queries = unified_values(limits.block_size, seqs, limits.max_num_batched_tokens)
    shared = unified_values(0, seqs, limits.max_model_len // limits.block_size * seqs)
    unique = unified_values(0, seqs, kv_blocks)
    candidates = (UnifiedBucket(*values) for values in product(queries, shared, unique, (0, 1)))
    return tuple(bucket for bucket in candidates if bucket.query > 0 and _is_possible(bucket, limits))


def _is_possible(bucket: UnifiedBucket, limits: Limits) -> bool:
    """Return True if such a batch can occur while no sequence references more than its model length."""
    query, shared, unique, causal = bucket
    tokens = shared * limits.block_size
    if causal:
        return tokens // min(limits.max_num_seqs, query) <= limits.max_model_len
    if query > limits.max_num_seqs or shared + unique == 0:
        return False
    return shared == 0 or (query > 1 and tokens // (query // 2) <= limits.max_model_len)


def unified_values(minimum: int, turning: int, maximum: int) -> list[int]:
    """Return the values of unified buckets in old releases, and 0 if `minimum` is 0.

    The values are a quarter, a half and the whole of `turning` and of `maximum` (log 001).
    """
    points = {point // part for point in (turning, maximum) for part in (4, 2, 1)}
    return sorted(points | ({0} if minimum == 0 else set()))
