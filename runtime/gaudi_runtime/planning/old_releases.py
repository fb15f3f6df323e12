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
    prompt_filter, decode_filter = BucketFilter(BucketPhase.PROMPT), BucketFilter(BucketPhase.DECODE)
    _filter_prompt_ranges(prompt_filter, limits)
    _filter_decode_ranges(decode_filter, limits, kv_blocks)
    return plan_from_filters(prompt_filter, decode_filter)


def _filter_prompt_ranges(bucket_filter: BucketFilter, limits: Limits) -> None:
    block_size, max_model_len = limits.block_size, limits.max_model_len
    batch_sizes = _batch_sizes(limits.max_num_prefill_seqs, limits)
    query_lens = _fill_range(Range(block_size, block_size, max_model_len, ceil_log2(max_model_len) + 1), limits)
    for batch_size, query_len in product(batch_sizes, query_lens):
        context_count = (max_model_len - query_len) // block_size + 1 if limits.prefix_caching else 1
        sequence_tokens = limits.max_num_batched_tokens // batch_size
        fitting_count = min(context_count, max(0, (sequence_tokens - query_len) // block_size + 1))
        for context in range(fitting_count):
            bucket_filter.keep(Bucket(batch_size, query_len, context))
        if fitting_count < context_count:
            bucket_filter.drop(DropRule.OVER_BUDGET_WITH_CONTEXT, context_count - fitting_count)


def _filter_decode_ranges(bucket_filter: BucketFilter, limits: Limits, kv_blocks: int) -> None:
    block_size = limits.block_size
    block_counts = _fill_range(Range(block_size, block_size, kv_blocks, ceil_log2(kv_blocks) + 1), limits)
    for batch_size, num_blocks in product(_batch_sizes(limits.max_num_seqs, limits), block_counts):
        bucket_filter.keep(Bucket(batch_size, 1, num_blocks))


def _batch_sizes(max_size: int, limits: Limits) -> list[int]:
    return _fill_range(Range(1, 1, max_size, ceil_log2(max_size) + 1), limits)


def _fill_range(r: Range, limits: Limits) -> list[int]:
    return exponential_fill(r.min, r.step, r.max, r.limit, ends_exact=limits.contiguous_paged_attention)


def exponential_fill(minimum: int, step: int, maximum: int, limit: int, *, ends_exact: bool) -> list[int]:
    """Return the exponential values of release 1.22.

    If a rounded value is already used, the nearest unused multiple of the step replaces it.
    """
    if limit <= 1:
        return [maximum]
    points = geometric_points(minimum, maximum, limit)
    unused_values = set(range(next_multiple(minimum, step), maximum + 1, step))
    values: set[int] = set()
    for position, point in enumerate(points):
        is_last = position == limit - 1
        value = maximum if is_last and ends_exact else next_multiple(point, step)
        # If rounding maps two points to the same value, the nearest unused multiple is used. Otherwise the range would
        # have fewer than `limit` values.
        if value in values and unused_values:
            value = min(unused_values, key=lambda candidate: (abs(candidate - point), candidate))
        values.add(value)
        unused_values.discard(value)
    return sorted(values)


class UnifiedBucket(NamedTuple):
    """A padded mixed batch of old releases: tokens, shared KV blocks, unshared KV blocks, and causal 0 or 1."""

    query_len: int
    shared_blocks: int
    unique_blocks: int
    causal: int


def plan_unified(limits: Limits, kv_blocks: int) -> tuple[UnifiedBucket, ...]:
    """Return all unified buckets of old releases, sorted and distinct, on a device with `kv_blocks` KV blocks."""
    max_seqs = limits.max_num_seqs
    queries = unified_values(limits.block_size, max_seqs, limits.max_num_batched_tokens)
    shared_blocks = unified_values(0, max_seqs, limits.max_model_len // limits.block_size * max_seqs)
    unique_blocks = unified_values(0, max_seqs, kv_blocks)
    candidates = (UnifiedBucket(*values) for values in product(queries, shared_blocks, unique_blocks, (0, 1)))
    return tuple(bucket for bucket in candidates if bucket.query_len > 0 and _is_possible(bucket, limits))


def _is_possible(bucket: UnifiedBucket, limits: Limits) -> bool:
    """Return True if such a batch can occur while no sequence references more than its model length."""
    query_len, shared_blocks, unique_blocks, causal = bucket
    shared_tokens = shared_blocks * limits.block_size
    if causal:
        return shared_tokens // min(limits.max_num_seqs, query_len) <= limits.max_model_len
    if query_len > limits.max_num_seqs or shared_blocks + unique_blocks == 0:
        return False
    return shared_blocks == 0 or (query_len > 1 and shared_tokens // (query_len // 2) <= limits.max_model_len)


def unified_values(minimum: int, turning_point: int, maximum: int) -> list[int]:
    """Return the values of unified buckets in old releases, and 0 if `minimum` is 0.

    The values are a quarter, a half and the whole of `turning_point` and of `maximum` (log 001).
    """
    points = {point // divisor for point in (turning_point, maximum) for divisor in (4, 2, 1)}
    return sorted(points | ({0} if minimum == 0 else set()))
