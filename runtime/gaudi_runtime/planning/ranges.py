"""Ranges and values of a plan's dimensions, by strategy (docs/internals/planning.md, Default ranges and Ranges).

For each strategy, one function returns a Range per dimension from the limits and the KV blocks of the device. A
BucketPolicy overrides these ranges. Then each Range is expanded to sorted, distinct values. Impossible settings raise
ValueError with a clause. `plan_range_values` makes the values of all five dimensions, and adds the dimension's name to
the error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gaudi_runtime.buckets.kv_blocks import SHARED_BLOCKS, DeviceBlocks, most_decode_blocks
from gaudi_runtime.contract.bucketing import BucketingRangeSettings, BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.knobs.setting_errors import LONG_MODEL_LEN

RANGED_STRATEGIES = (Strategy.EXPONENTIAL, Strategy.LINEAR, Strategy.PADDING_AWARE)
"""The strategies that make values from ranges, in the order of comparisons."""


@dataclass(frozen=True)
class Range:
    """The resolved range of one dimension of a plan. Each strategy uses only some of the settings."""

    min: int
    step: int
    max: int
    limit: int = 0
    pad_max: int = 0
    pad_percent: int = 0

    def override(self, settings: BucketingRangeSettings) -> "Range":
        """Return the range with the values that the user set."""
        return replace(self, **settings.model_dump(exclude_none=True))


T = TypeVar("T")


@dataclass(frozen=True)
class RangeDimensions(Generic[T]):
    """One item for each of a plan's five dimensions, such as a Range or a list of values."""

    prompt_batch: T
    prompt_query: T
    prompt_context: T
    decode_batch: T
    decode_blocks: T


def _ceil_log2(value: int) -> int:
    """Return the exponent of the smallest power of two that is >= value (value >= 1)."""
    return (value - 1).bit_length()


def exponential_ranges(limits: Limits, kv_blocks: int, *, bounded: bool = True) -> RangeDimensions[Range]:
    """Return the ranges of strategy `Exponential` from the limits. `bounded` is the field of DeviceBlocks."""
    # Users cannot override these ranges, because the public planner reads no environment variables for this strategy.
    block, seqs, prefills = limits.block_size, limits.max_num_seqs, limits.max_num_prefill_seqs
    tokens = limits.max_num_batched_tokens
    max_context = _exponential_context(limits)
    bound = kv_blocks if limits.contiguous_paged_attention else SHARED_BLOCKS * kv_blocks
    useful_blocks = math.ceil(limits.max_model_len / block) * seqs
    max_blocks = useful_blocks if not (bounded or limits.contiguous_paged_attention) else min(useful_blocks, bound)
    # If a range exceeds the bound, the public planner adds values, so that the distance between values stays the same.
    extra_values = _ceil_log2(math.ceil(max_blocks / bound)) + 1 if max_blocks > bound else 0
    return RangeDimensions(
        prompt_batch=Range(1, 2, prefills, _ceil_log2(prefills) + 1),
        prompt_query=Range(block, block, tokens, _ceil_log2(tokens)),
        prompt_context=Range(0, 1, max_context, 2 if max_context == 1 else _ceil_log2(max_context) + 1),
        decode_batch=Range(1, 2, seqs, _ceil_log2(seqs) + 1),
        decode_blocks=Range(1, seqs, max_blocks, _ceil_log2(max_blocks) + 1 + extra_values),
    )


def _exponential_context(limits: Limits) -> int:
    """Return the largest context in blocks: the blocks that remain after the shortest query."""
    is_long = limits.max_model_len >= LONG_MODEL_LEN
    query_len = limits.max_num_batched_tokens if is_long else limits.block_size
    return max(1, (limits.max_model_len - query_len) // limits.block_size)


def linear_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> RangeDimensions[Range]:
    """Return the ranges of strategy `Linear`, with evenly spaced values. `policy` overrides every setting."""
    block, model_len, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    query_range = Range(block, block, limits.max_num_batched_tokens).override(policy.prompt.query)
    # As in the public planner, this strategy rounds the blocks down. The padding-aware strategy rounds them up.
    max_blocks = kv_blocks if limits.contiguous_paged_attention else max(model_len * seqs // block, block)
    return RangeDimensions(
        prompt_batch=Range(1, 1, limits.max_num_prefill_seqs).override(policy.prompt.batch_size),
        prompt_query=query_range,
        prompt_context=Range(0, 1, max(0, (model_len - query_range.min) // block)).override(policy.prompt.context),
        decode_batch=Range(1, 32, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit_decode_blocks(Range(1, block, max_blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def padding_aware_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> RangeDimensions[Range]:
    """Return the ranges of strategy `PaddingAware`, which limit the padding. `policy` overrides every setting."""
    block, model_len, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    tokens, prefills = limits.max_num_batched_tokens, limits.max_num_prefill_seqs
    query_range = _padded_range(block, block, tokens).override(policy.prompt.query)
    max_context = max(0, math.ceil((model_len - query_range.min) / block))
    max_blocks = kv_blocks if limits.contiguous_paged_attention else max(math.ceil(model_len * seqs / block), block)
    block_range = _padded_range(block, block, max_blocks).override(policy.decode.blocks)
    if block_range.min > kv_blocks:
        # The minimum is derived from the blocks of the device, even if the maximum of the range is larger.
        block_range = replace(block_range, min=max(1, kv_blocks - block_range.step))
    return RangeDimensions(
        prompt_batch=_padded_range(1, 1, prefills).override(policy.prompt.batch_size),
        prompt_query=query_range,
        prompt_context=Range(0, 2, max_context, pad_max=math.ceil(tokens / block), pad_percent=25).override(
            policy.prompt.context
        ),
        decode_batch=_padded_range(1, 2, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit_decode_blocks(block_range, limits, kv_blocks),
    )


def _padded_range(minimum: int, step: int, maximum: int) -> Range:
    return Range(minimum, step, maximum, pad_max=math.ceil(maximum / 4), pad_percent=25)


def _fit_decode_blocks(block_range: Range, limits: Limits, kv_blocks: int) -> Range:
    """Limit a range of decode blocks to the blocks of the device, and keep its minimum below its maximum."""
    if limits.contiguous_paged_attention and block_range.max > kv_blocks:
        block_range = replace(block_range, max=kv_blocks)
    if block_range.min > block_range.max:
        block_range = replace(block_range, min=max(1, block_range.max - block_range.step))
    return block_range


# The most values of a range. More values could never be compiled and would only exhaust the memory.
MAX_VALUES = 10_000


def linear_range_values(minimum: int, step: int, maximum: int) -> list[int]:
    """Return the values of a linear bucket range: powers of two below the step, then multiples of the step.

    The maximum is a value only if it is a multiple of the step. Raises ValueError if minimum > maximum.
    """
    _check_order(minimum, maximum)
    _check_count(minimum, step, maximum)
    if maximum == 0:
        return [0]
    value = minimum or step
    values = {0} if minimum == 0 else set()
    while value < step and value <= maximum:
        values.add(value)
        value *= 2
    first_multiple = max(step, -(-minimum // step) * step)
    values.update(range(first_multiple, maximum + 1, step))
    return sorted(values)


def exponential_range_values(minimum: int, step: int, maximum: int, limit: int) -> list[int]:
    """Return the values of an exponential bucket range: `limit` points in geometric progression.

    The points are rounded up to multiples of the step. The last value is the maximum.
    """
    if limit <= 1:
        return [maximum]
    # If the minimum is 0 or 1, the progression starts at the step, and the minimum is added separately.
    small_values = {minimum} if minimum <= 1 else set()
    points = _geometric_points(step if small_values else minimum, maximum, limit)
    values = {next_multiple_in_range(point, step) for point in points}
    if max(values) > maximum:
        values = (values - {max(values)}) | {maximum}
    return sorted(values | small_values)


def padding_aware_range_values(minimum: int, step: int, maximum: int, pad_max: int, pad_percent: int) -> list[int]:
    """Return the values of a padding-aware bucket range: doubled values, then multiples that limit the padding.

    pad_max is the largest padding in units of the dimension (0: unlimited up to the maximum). pad_percent is the
    largest padding in percent of the next value, 0 to 50. The maximum is always the last value. Raises ValueError if
    minimum > maximum.
    """
    _check_order(minimum, maximum)
    _check_count(minimum, step, maximum)
    pad_max = pad_max or maximum
    values = [minimum]
    value = minimum
    while value <= step:
        value = max(1, values[-1] * 2)
        if value > maximum:
            break
        values.append(value)
    for candidate in range(value, maximum, step):
        next_candidate = candidate + step
        padding = next_candidate - values[-1] - 1
        pads_too_much = padding * 100 > pad_percent * next_candidate or padding > pad_max
        if candidate > values[-1] and (pads_too_much or candidate % pad_max == 0):
            values.append(candidate)
    return values if values[-1] == maximum else [*values, maximum]


def _geometric_points(minimum: int, maximum: int, limit: int) -> list[float]:
    """Return `limit` points from minimum to maximum in geometric progression."""
    # The exponent is a product of `i`. A division of `i` by (limit - 1) rounds differently and moves points that are
    # exact multiples.
    ratio, exponent = maximum / minimum, 1 / (limit - 1)
    return [minimum * ratio ** (exponent * i) for i in range(limit)]


def next_multiple_in_range(value: float, step: int) -> int:
    """Round a value of a range up to the next multiple of the range's step."""
    return math.ceil(value / step) * step


def _check_order(minimum: int, maximum: int) -> None:
    if minimum > maximum:
        raise ValueError(f"min {minimum} is above max {maximum}. Lower min or raise max")


def _check_count(minimum: int, step: int, maximum: int) -> None:
    """Raise ValueError if a range has too many multiples of its step."""
    if (maximum - minimum) // step > MAX_VALUES:
        raise ValueError(f"a step of {step} up to {maximum} gives more than {MAX_VALUES} values. Choose a larger step")


ValuesOf = Callable[[Range], list[int]]


def plan_range_values(policy: BucketPolicy, limits: Limits, device: DeviceBlocks) -> RangeDimensions[list[int]]:
    """Return the bucket values of every dimension.

    Raises PlanImpossible that names the dimension with contradictory settings.
    """
    ranges, values_of = _ranges_of_strategy(policy, limits, device)
    queries = _range_values("prompt.query", ranges.prompt_query, values_of)
    batch_sizes = _range_values("decode.batchSize", ranges.decode_batch, values_of)
    contexts = [0]
    if limits.has_context:
        contexts = _range_values("prompt.context", ranges.prompt_context, values_of)
    block_counts = _range_values("decode.blocks", ranges.decode_blocks, values_of)
    # With contiguous attention, a batch reads all blocks up to the highest block in use. So at least one bucket must
    # have all blocks.
    if limits.contiguous_paged_attention and max(block_counts, default=0) < device.count:
        block_counts = [*block_counts, device.count]
    if limits.gapless:
        sequences = min(limits.max_num_seqs, device.count)
        queries, batch_sizes = _end_values_at(limits.longest_query, queries), _end_values_at(sequences, batch_sizes)
        max_blocks = _most_blocks(sequences, limits, device)
        # Values larger than the limit are kept, as in the plugin's own plan.
        block_counts = block_counts if max(block_counts, default=0) >= max_blocks else [*block_counts, max_blocks]
    return RangeDimensions(
        prompt_batch=[1]
        if limits.steps_by_tokens
        else _range_values("prompt.batchSize", ranges.prompt_batch, values_of),
        prompt_query=sorted({next_multiple_in_range(value, device.query_step) for value in queries}),
        prompt_context=contexts,
        decode_batch=batch_sizes,
        decode_blocks=block_counts,
    )


def _end_values_at(maximum: int, values: list[int]) -> list[int]:
    """Return the values below `maximum`, followed by `maximum`."""
    return [*(value for value in values if value < maximum), maximum]


def _most_blocks(sequences: int, limits: Limits, device: DeviceBlocks) -> int:
    """Return the most KV blocks that a decode batch of this many sequences can read."""
    if device.bounded or limits.contiguous_paged_attention:
        return most_decode_blocks(sequences, limits, device.count)
    return sequences * math.ceil(limits.max_model_len / limits.block_size)


_RANGE_FIELDS = {
    Strategy.LINEAR: (),
    Strategy.PADDING_AWARE: ("pad_max", "pad_percent"),
    Strategy.EXPONENTIAL: ("limit",),
}
"""The settings of each strategy besides `min`, `step` and `max`."""


def range_config_lines(policy: BucketPolicy, limits: Limits, device: DeviceBlocks) -> list[str]:
    """Return the ranges of both phases as the plugin logs them (seed 003); empty for a strategy without ranges."""
    if policy.strategy not in RANGED_STRATEGIES:
        return []
    ranges, _ = _ranges_of_strategy(policy, limits, device)
    fields = _RANGE_FIELDS[policy.strategy]

    def config(**dimensions: Range) -> str:
        names = ", ".join(("min", "step", "max_warmup", *fields))
        values = (
            f"{name}:{[each.min, each.step, each.max, *(getattr(each, field) for field in fields)]}"
            for name, each in dimensions.items()
        )
        return f"bucket config ({names}) {', '.join(values)}"

    context = {"blocks": ranges.prompt_context} if limits.has_context else {}
    return [
        f"Prompt {config(bs=ranges.prompt_batch, query=ranges.prompt_query, **context)}",
        f"Decode {config(bs=ranges.decode_batch, block=ranges.decode_blocks)}",
    ]


def _ranges_of_strategy(
    policy: BucketPolicy, limits: Limits, device: DeviceBlocks
) -> tuple[RangeDimensions[Range], ValuesOf]:
    match policy.strategy:
        case Strategy.LINEAR:
            return linear_ranges(policy, limits, device.count), lambda r: linear_range_values(r.min, r.step, r.max)
        case Strategy.PADDING_AWARE:
            return (
                padding_aware_ranges(policy, limits, device.count),
                lambda r: padding_aware_range_values(r.min, r.step, r.max, r.pad_max, r.pad_percent),
            )
    return (
        exponential_ranges(limits, device.count, bounded=device.bounded),
        lambda r: exponential_range_values(r.min, r.step, r.max, r.limit),
    )


def _range_values(dimension: str, value_range: Range, values_of: ValuesOf) -> list[int]:
    try:
        # Only the context of a prompt may be 0.
        if value_range.min < 1 and dimension != "prompt.context":
            raise ValueError(f"min is {value_range.min}, but must be at least 1")
        return values_of(value_range)
    except ValueError as error:
        raise PlanImpossible(str(error), f"bucketing.{dimension}") from error
