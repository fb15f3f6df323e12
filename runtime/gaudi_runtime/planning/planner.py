"""The bucket planner: makes a BucketPlan from a policy, limits and KV blocks (docs/internals/planning.md).

The planner tries all combinations of the values of ranges. Rules drop some combinations (docs/internals/planning.md,
Filters). A Sieve collects the buckets of one phase and counts the dropped buckets by rule.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence, Sized
from math import prod
from typing import NoReturn

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan, PlanDroppedBuckets, PlanDropRule
from gaudi_runtime.buckets.kv_blocks import (
    DeviceBlocks,
    clamp_blocks,
    most_context_kv_blocks,
    most_context_kv_blocks_for_query,
)
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.knobs.setting_errors import LONG_MODEL_LEN, ignored_settings
from gaudi_runtime.planning.bucket_file import read_bucket_file
from gaudi_runtime.planning.coverage import count_coverage_steps, coverage_levels
from gaudi_runtime.planning.joint_batches import add_joint_buckets
from gaudi_runtime.planning.ranges import RangeDimensions, next_multiple_in_range, plan_range_values
from gaudi_runtime.planning.speculative import add_verification_buckets


def make_plan(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
    """Plan all buckets of a model on a device with `kv_blocks` KV blocks.

    Raises PlanImpossible. Its message names the phase, the dimension or the rule that makes the plan impossible.
    """
    return make_plan_for_device(policy, limits, DeviceBlocks.from_limits(kv_blocks, limits))


def make_plan_for_device(policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks) -> BucketPlan:
    """Plan the buckets for the actual KV blocks of an engine, whose size may differ from the limits."""
    return add_joint_buckets(_plan_of_one_core(policy, limits, blocks), limits, MAX_BUCKETS)


def _plan_of_one_core(policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks) -> BucketPlan:
    plan = _plan_by_strategy(policy, blocks.adjust_limits(limits), blocks)
    if blocks.decode_size == blocks.size:
        return add_verification_buckets(plan, blocks.adjust_limits(limits), policy, MAX_BUCKETS)
    # Prompt and decode are planned separately here. So a budget of strategy `Optimal` applies to each phase separately.
    decode_plan = _plan_by_strategy(policy, limits.model_copy(update={"block_size": blocks.decode_size}), blocks)
    dropped = (
        *(entry for entry in plan.dropped if entry.phase is BucketPhase.PROMPT),
        *(entry for entry in decode_plan.dropped if entry.phase is BucketPhase.DECODE),
    )
    return BucketPlan(prompt=plan.prompt, decode=decode_plan.decode, warnings=plan.warnings, dropped=dropped)


def _plan_by_strategy(policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks) -> BucketPlan:
    if blocks.count < 1:
        raise PlanImpossible("the device has no memory for a KV block. Use more device memory or a smaller model")
    warnings = list(ignored_settings(policy, limits))
    match policy.strategy:
        case Strategy.FILE:
            return make_plan_from_file(policy.file or "", limits, warnings)
        case Strategy.OPTIMAL:
            return _optimal_plan(policy, limits, blocks, warnings)
    return make_plan_from_ranges(policy, limits, blocks, warnings)


def _optimal_plan(policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks, warnings: list[str]) -> BucketPlan:
    """Plan the buckets of strategy `Optimal`, which never break a rule."""
    # The import is here, because most plans need no optimizer. Commands start faster without this import.
    from gaudi_runtime.planning.optimal.strategy import optimal_strategy_buckets

    def make_exponential_plan() -> BucketPlan:
        return make_plan_from_ranges(BucketPolicy(strategy=Strategy.EXPONENTIAL), limits, blocks)

    buckets, optimal_warnings = optimal_strategy_buckets(policy, limits, blocks.count, make_exponential_plan)
    prompt_filter, decode_filter = PlannerBucketFilter(BucketPhase.PROMPT), PlannerBucketFilter(BucketPhase.DECODE)
    for bucket_filter, phase in ((prompt_filter, BucketPhase.PROMPT), (decode_filter, BucketPhase.DECODE)):
        for bucket in buckets[phase]:
            bucket_filter.keep(_round_query_up(bucket, blocks.query_step) if phase is BucketPhase.PROMPT else bucket)
    return _plan_from_filters(prompt_filter, decode_filter, [*warnings, *optimal_warnings])


def _round_query_up(bucket: Bucket, step: int) -> Bucket:
    return bucket._replace(query_len=next_multiple_in_range(bucket.query_len, step))


def violated_planner_prompt_rule(
    limits: Limits, batch_size: int, query_len: int, num_blocks: int
) -> PlanDropRule | None:
    """Return the planner's rule that forbids a prompt bucket, or None if the bucket is allowed."""
    rule = _violated_query_rule(limits, batch_size, query_len)
    if rule is not None:
        return rule
    if num_blocks > most_context_kv_blocks(limits):
        return PlanDropRule.CONTEXT_TOO_LONG
    return PlanDropRule.NOT_WHOLE_SLICES if num_blocks == 0 and _splits_a_slice(limits, query_len) else None


def _violated_query_rule(limits: Limits, batch_size: int, query_len: int) -> PlanDropRule | None:
    """Return the rule that forbids prompt buckets of this query for every context, or None if no rule does."""
    if not limits.steps_by_tokens and query_len > limits.max_model_len:
        return PlanDropRule.QUERY_TOO_LONG
    if batch_size * query_len > limits.max_num_batched_tokens:
        return PlanDropRule.OVER_BUDGET
    return None


def _splits_a_slice(limits: Limits, query_len: int) -> bool:
    slices = limits.sliding_window_slices
    return slices is not None and query_len >= slices.from_tokens and query_len % slices.tokens != 0


def violated_planner_decode_rule(limits: Limits, batch_size: int, num_blocks: int) -> PlanDropRule | None:
    """Return the planner's rule that forbids a decode bucket, or None if the bucket is allowed."""
    # With contiguous attention, `num_blocks` counts all blocks up to the highest block in use, so it does not limit the
    # sequences.
    if not limits.contiguous_paged_attention and batch_size > num_blocks:
        return PlanDropRule.FEWER_BLOCKS_THAN_SEQUENCES
    return None


# The most buckets of a phase. Each bucket is a graph, and warm-up of this many graphs would take weeks.
MAX_BUCKETS = 250_000

# The most combinations of a phase that the planner tries. This many combinations take seconds.
MAX_CANDIDATES = 5_000_000

_EXAMPLES = {BucketPhase.PROMPT: "(1, 128, 0)", BucketPhase.DECODE: "(1, 1, 128)"}


def check_candidate_count(phase: BucketPhase, *dimensions: Sized) -> None:
    """Raise PlanImpossible if the ranges have more combinations than can be warmed up."""
    candidate_count = prod(len(values) for values in dimensions)
    if candidate_count > MAX_CANDIDATES:
        raise PlanImpossible(
            f"the {phase} ranges combine to {candidate_count} buckets, but at most {MAX_CANDIDATES} are allowed. "
            f"Choose larger steps in bucketing.{phase}, or another strategy"
        )


def refuse_too_many_buckets(phase: BucketPhase) -> NoReturn:
    """Raise PlanImpossible for a plan with more than MAX_BUCKETS buckets of a phase."""
    raise PlanImpossible(
        f"the plan has more than {MAX_BUCKETS} {phase} buckets. Choose larger steps in bucketing.{phase}, or another "
        "strategy"
    )


class PlannerBucketFilter:
    """A filter of one phase, which collects buckets and counts the dropped buckets by rule."""

    def __init__(self, phase: BucketPhase) -> None:
        self._phase = phase
        # A dict keeps the order of its keys, so sorting the buckets of a sorted input takes almost no time.
        self._kept_buckets: dict[Bucket, None] = {}
        self._drop_counts: Counter[PlanDropRule] = Counter()

    def keep(self, bucket: Bucket) -> None:
        """Keep a bucket that broke no rule. Raises PlanImpossible if the plan becomes too large."""
        self._kept_buckets[bucket] = None
        if len(self._kept_buckets) > MAX_BUCKETS:
            refuse_too_many_buckets(self._phase)

    def drop(self, rule: PlanDropRule, count: int = 1) -> None:
        """Count buckets that broke a rule."""
        self._drop_counts[rule] += count

    def buckets(self) -> tuple[Bucket, ...]:
        """Return the kept buckets, sorted. Raises PlanImpossible that names the rules if no bucket is left."""
        if not self._kept_buckets:
            raise PlanImpossible(self._why_empty())
        return tuple(sorted(self._kept_buckets))

    def dropped_by_rule(self) -> tuple[PlanDroppedBuckets, ...]:
        """Return the number of dropped buckets for each rule, largest number first."""
        return tuple(PlanDroppedBuckets(self._phase, rule, count) for rule, count in self._drop_counts.most_common())

    def _why_empty(self) -> str:
        if not self._drop_counts:
            # Only a bucket file can have no bucket of a phase, because the precheck refuses ranges without values.
            return f"the bucket file has no {self._phase} bucket. Add a line such as {_EXAMPLES[self._phase]}"
        reasons = " and ".join(f"{count} dropped because {rule}" for rule, count in self._drop_counts.most_common())
        return f"no {self._phase} bucket is left: {reasons}. Change bucketing.{self._phase} or raise the limit"


MAX_FILE_WARNINGS = 20

# The most steps in the staircases of a bucket file (coverage.py). The limit equals the most buckets of a phase.
MAX_STEPS = 250_000


def make_plan_from_ranges(
    policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks, warnings: Sequence[str] = ()
) -> BucketPlan:
    """Plan the buckets of ranges: all combinations of their values that no rule drops. Raises PlanImpossible."""
    prompt_filter, decode_filter = PlannerBucketFilter(BucketPhase.PROMPT), PlannerBucketFilter(BucketPhase.DECODE)
    values = plan_range_values(policy, limits, blocks)
    _filter_prompt_ranges(prompt_filter, values, limits, policy.prompt.context.max)
    _filter_decode_ranges(decode_filter, values, limits)
    return _plan_from_filters(prompt_filter, decode_filter, warnings)


def make_plan_from_file(text: str, limits: Limits, warnings: Sequence[str] = ()) -> BucketPlan:
    """Plan the buckets of a bucket file, with warnings about dropped buckets. Raises PlanImpossible."""
    prompt, decode = PlannerBucketFilter(BucketPhase.PROMPT), PlannerBucketFilter(BucketPhase.DECODE)
    plan = _plan_from_filters(prompt, decode, [*warnings, *_filter_file(prompt, decode, text, limits)])
    _check_step_count(plan, limits)
    return plan


def _plan_from_filters(
    prompt: PlannerBucketFilter, decode: PlannerBucketFilter, warnings: Sequence[str] = ()
) -> BucketPlan:
    """Make a plan from the buckets of both filters. Raises PlanImpossible if a phase is empty."""
    return BucketPlan(
        prompt=prompt.buckets(),
        decode=decode.buckets(),
        warnings=tuple(warnings),
        dropped=prompt.dropped_by_rule() + decode.dropped_by_rule(),
    )


def _filter_prompt_ranges(
    bucket_filter: PlannerBucketFilter, values: RangeDimensions[list[int]], limits: Limits, context_cap: int | None
) -> None:
    check_candidate_count(BucketPhase.PROMPT, values.prompt_batch, values.prompt_query, values.prompt_context)
    for batch_size in values.prompt_batch:
        contexts, previous_query = values.prompt_context, 0
        for query_len in values.prompt_query:
            if limits.gapless:
                contexts = _gapless_contexts(values.prompt_context, previous_query, limits, context_cap)
            else:
                # If the largest context cannot be reduced for this query, `_fit_context` keeps the contexts of the
                # previous query.
                contexts = _fit_context(contexts, query_len, limits, context_cap)
            previous_query = query_len
            rule = _violated_query_rule(limits, batch_size, query_len)
            # Count all contexts with one call, because this rule may drop millions of combinations.
            if rule:
                bucket_filter.drop(rule, len(contexts))
                continue
            for context in contexts:
                _filter_prompt_bucket(bucket_filter, Bucket(batch_size, query_len, context), limits)


def _gapless_contexts(contexts: list[int], previous: int, limits: Limits, cap: int | None) -> list[int]:
    """Return the contexts of a query above `previous` tokens: smaller values, then the most context of such a query."""
    # The plugin's own rule counts only the whole blocks that remain after the padded query. With that rule, the
    # shortest queries of a bucket would have no bucket for their longest contexts.
    limit = most_context_kv_blocks_for_query(limits, previous + 1)
    smaller = [context for context in contexts if context < limit and (cap is None or context <= cap)]
    # By the plugin's rule, `limit` replaces the largest context. A single value is kept for prompts without context.
    replaces_largest = cap is None and len(smaller) == len(contexts) > 1
    return [*(smaller[:-1] if replaces_largest else smaller), limit]


def _fit_context(contexts: list[int], query_len: int, limits: Limits, cap: int | None) -> list[int]:
    """Reduce the largest context of a long model to the blocks that remain after the query."""
    remaining_blocks = (limits.max_model_len - query_len) // limits.block_size
    is_long = limits.max_model_len >= LONG_MODEL_LEN and limits.has_context
    if not is_long or remaining_blocks < 0 or (cap is not None and remaining_blocks >= cap):
        # The contexts of the previous query are kept, as in the public planner.
        return contexts
    return [*contexts[:-1], remaining_blocks]


def _filter_prompt_bucket(bucket_filter: PlannerBucketFilter, bucket: Bucket, limits: Limits) -> PlanDropRule | None:
    rule = violated_planner_prompt_rule(limits, *bucket)
    if rule:
        bucket_filter.drop(rule)
    else:
        bucket_filter.keep(bucket)
    return rule


def _filter_decode_ranges(
    bucket_filter: PlannerBucketFilter, values: RangeDimensions[list[int]], limits: Limits
) -> None:
    check_candidate_count(BucketPhase.DECODE, values.decode_batch, values.decode_blocks)
    block_counts = values.decode_blocks
    for batch_size in values.decode_batch:
        # All dropped combinations are counted in one step. Blocks are ascending, so the first blocks break the rule and
        # the last blocks are clamped.
        first = bisect_left(
            block_counts, True, key=lambda blocks: violated_planner_decode_rule(limits, batch_size, blocks) is None
        )
        if first:
            bucket_filter.drop(PlanDropRule.FEWER_BLOCKS_THAN_SEQUENCES, first)
        last = bisect_left(block_counts, True, key=lambda blocks: clamp_blocks(limits, batch_size, blocks) < blocks)
        for blocks in block_counts[first : last + 1]:
            bucket_filter.keep(Bucket(batch_size, 1, clamp_blocks(limits, batch_size, blocks)))


def _filter_decode_bucket(bucket_filter: PlannerBucketFilter, bucket: Bucket, limits: Limits) -> PlanDropRule | None:
    rule = violated_planner_decode_rule(limits, bucket.batch_size, bucket.num_blocks)
    if rule:
        bucket_filter.drop(rule)
    else:
        blocks = clamp_blocks(limits, bucket.batch_size, bucket.num_blocks)
        bucket_filter.keep(bucket._replace(num_blocks=blocks))
    return rule


def _filter_file(prompt: PlannerBucketFilter, decode: PlannerBucketFilter, text: str, limits: Limits) -> list[str]:
    """Filter the buckets of a file. Report every dropped bucket with its line and rule."""
    reports: list[str] = []
    dropped_count = 0
    for line_number, bucket in read_bucket_file(text):
        is_decode = bucket.query_len == 1
        rule = (
            _filter_decode_bucket(decode, bucket, limits)
            if is_decode
            else _filter_prompt_bucket(prompt, bucket, limits)
        )
        if rule:
            dropped_count += 1
            if dropped_count <= MAX_FILE_WARNINGS:
                reports.append(f"bucket file, line {line_number}: {tuple(bucket)} was dropped: {rule}")
    if dropped_count > MAX_FILE_WARNINGS:
        reports.append(f"bucket file: {dropped_count - MAX_FILE_WARNINGS} more buckets were dropped")
    return reports


def _check_step_count(plan: BucketPlan, limits: Limits) -> None:
    """Raise PlanImpossible if the gaps of a file's plan would need far more work than its buckets."""
    # Only bucket files need this check. The other strategies use the same values for every batch size, so they have no
    # more steps than buckets.
    levels = coverage_levels(plan.prompt, limits.max_num_prefill_seqs)
    if count_coverage_steps(MAX_STEPS, levels) > MAX_STEPS:
        size_count = len({bucket.batch_size for bucket in plan.prompt})
        raise PlanImpossible(
            f"the search for gaps between the buckets of {size_count} prompt batch sizes needs more than {MAX_STEPS} "
            "steps. Use fewer batch sizes, or fewer buckets of the largest batch sizes",
            "bucketing.file",
        )
