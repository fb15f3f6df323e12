"""The check of a bucket policy before anything is planned (docs/internals/planning.md, Precheck).

The operator checks a policy before it writes a revision, and a pod before it fetches the model. The check works with
the values of ranges, the lines of a file and the totals of a budget. It counts buckets without making them, so the
largest policy takes a fixed time. A policy that passes may still be impossible on a certain card or for a certain
model, which only a pod can find.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks, clamp_blocks, most_context_kv_blocks_for_query
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import BucketsMissing, PlanImpossible
from gaudi_runtime.planning.coverage import prompt_coverage
from gaudi_runtime.planning.planner import (
    MAX_BUCKETS,
    check_candidate_count,
    make_plan_from_file,
    refuse_too_many_buckets,
)
from gaudi_runtime.planning.ranges import RangeDimensions, plan_range_values
from gaudi_runtime.planning.speculative import check_speculative_drafts


def precheck(policy: BucketPolicy, limits: Limits, kv_blocks: int, *, refuses_gaps: bool) -> None:
    """Check a bucket policy for a device with at most `kv_blocks` KV blocks.

    With `refuses_gaps`, a bucket file without a bucket for an admissible batch is an error too. All other strategies
    have no gaps, because their ranges are extended (docs/internals/planning.md, Coverage). Raises PlanImpossible or
    BucketsMissing, which name the setting that is wrong.
    """
    check_speculative_drafts(policy, limits)
    match policy.strategy:
        case Strategy.FILE:
            _check_file(policy.file or "", limits, kv_blocks, refuses_gaps=refuses_gaps)
        case Strategy.OPTIMAL:
            # The import is here, because most policies need no optimizer.
            from gaudi_runtime.planning.optimal.strategy import check_optimal_strategy

            check_optimal_strategy(policy, limits, kv_blocks)
        case _:
            _check_ranges(policy, limits, kv_blocks)


def _check_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> None:
    values = plan_range_values(policy, limits, DeviceBlocks.from_limits(kv_blocks, limits))
    check_candidate_count(BucketPhase.PROMPT, values.prompt_batch, values.prompt_query, values.prompt_context)
    check_candidate_count(BucketPhase.DECODE, values.decode_batch, values.decode_blocks)
    counts = {
        BucketPhase.PROMPT: _count_prompt_buckets(values, limits),
        BucketPhase.DECODE: _count_decode_buckets(values, limits),
    }
    for phase, count in counts.items():
        if not count:
            raise PlanImpossible(
                f"no {phase} bucket is within the limits in spec.engine and spec.model.maxModelLen. Lower the values "
                f"in bucketing.{phase}, or raise the limits"
            )
        if count > MAX_BUCKETS:
            refuse_too_many_buckets(phase)


def _count_prompt_buckets(values: RangeDimensions[list[int]], limits: Limits) -> int:
    """Count the prompt buckets within the token limit of a step, with the contexts that each query can have."""
    contexts, context_counts = values.prompt_context, [0]
    for previous_query in (0, *values.prompt_query[:-1]):
        most_context = most_context_kv_blocks_for_query(limits, previous_query + 1)
        smaller_count = bisect_left(contexts, most_context) if limits.gapless else len(contexts)
        context_counts.append(min(len(contexts), smaller_count + 1))
    totals = list(accumulate(context_counts))
    longest = limits.max_num_batched_tokens if limits.steps_by_tokens else limits.longest_query
    return sum(
        totals[bisect_right(values.prompt_query, min(longest, limits.max_num_batched_tokens // batch_size))]
        for batch_size in values.prompt_batch
    )


def _count_decode_buckets(values: RangeDimensions[list[int]], limits: Limits) -> int:
    """Count the decode buckets with a block for each sequence, and no more blocks than sequences can reference."""
    blocks, count = values.decode_blocks, 0
    if not blocks:
        return 0
    for batch_size in values.decode_batch:
        first = 0 if limits.contiguous_paged_attention else bisect_left(blocks, batch_size)
        most = clamp_blocks(limits, batch_size, blocks[-1])
        count += max(0, min(len(blocks), bisect_left(blocks, most) + 1) - first)
    return count


def _check_file(text: str, limits: Limits, kv_blocks: int, *, refuses_gaps: bool) -> None:
    plan = make_plan_from_file(text, limits)
    if not refuses_gaps:
        return
    if gaps := prompt_coverage(plan.prompt, limits).describe_gaps():
        raise precheck_missing_buckets(gaps)
    most_sequences = min(limits.max_num_seqs, kv_blocks)
    largest_batch = max(bucket.batch_size for bucket in plan.decode)
    if largest_batch < most_sequences:
        raise precheck_missing_buckets(
            f"decode batches of {largest_batch + 1} to {most_sequences} sequences have no bucket, because the largest "
            f"decode bucket has {largest_batch}"
        )


def precheck_missing_buckets(gaps: str) -> BucketsMissing:
    """Return the error about batches without a bucket. `gaps` is a clause that describes these batches."""
    return BucketsMissing(
        f"{gaps}. A request with such a batch would wait for a compile. Add buckets for these batches, or set "
        "spec.bucketing.gaps to Allow"
    )
