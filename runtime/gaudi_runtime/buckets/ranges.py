"""The values of a plan's dimensions, by strategy (docs/bucketing.md, Ranges).

First the values of one dimension: sorted and distinct. Impossible settings raise ValueError with a clause, and
`plan_values`, which makes the values of all five, completes it with the dimension's name.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.policy import Range, Ranges, exponential_ranges, linear_ranges, padding_aware_ranges
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import PlanImpossible

MAX_VALUES = 100_000
"""Most values that a range may have: more cannot be compiled in any lifetime, and would only exhaust memory."""


def linear(minimum: int, step: int, maximum: int) -> list[int]:
    """Powers of two from the minimum while below the step, then every multiple of the step up to the maximum.

    The maximum itself is a value only when it is a multiple of the step. ValueError when minimum > maximum.
    """
    _check(minimum, step, maximum)
    if maximum == 0:
        return [0]
    ramp = minimum or step
    values = {0} if minimum == 0 else set()
    while ramp < step and ramp <= maximum:
        values.add(ramp)
        ramp *= 2
    first = max(step, -(-minimum // step) * step)
    values.update(range(first, maximum + 1, step))
    return sorted(values)


def exponential(minimum: int, step: int, maximum: int, limit: int, *, ends_exact: bool) -> list[int]:
    """`limit` points in geometric progression, rounded up to multiples of the step.

    A minimum of 0 or 1 would make the progression start flat: it starts at the step and the small value is added.
    `ends_exact` (contiguous paged attention) keeps the last point at the maximum without rounding.
    """
    if limit <= 1:
        return [maximum]
    small = {minimum} if minimum <= 1 else set()
    points = _geometric(step if small else minimum, maximum, limit)
    values = {_round_up(point, step) for point in points}
    if ends_exact:
        values = {_round_up(point, step) for point in points[:-1]} | {maximum}
    if max(values) > maximum:
        values = (values - {max(values)}) | {maximum}
    return sorted(values | small)


def exponential_fill(minimum: int, step: int, maximum: int, limit: int, *, ends_exact: bool) -> list[int]:
    """The form of release 1.22: a point whose rounded value is taken gets the nearest free multiple of the step.

    So none of the `limit` buckets is lost to rounding while free multiples are left.
    """
    if limit <= 1:
        return [maximum]
    points = _geometric(minimum, maximum, limit)
    free = set(range(_round_up(minimum, step), maximum + 1, step))
    values: set[int] = set()
    for position, point in enumerate(points):
        last = position == limit - 1
        value = maximum if last and ends_exact else _round_up(point, step)
        if value in values and free:
            value = min(free, key=lambda candidate: (abs(candidate - point), candidate))
        values.add(value)
        free.discard(value)
    return sorted(values)


def padding_aware(minimum: int, step: int, maximum: int, pad_max: int, pad_percent: int) -> list[int]:
    """Doubling up to the step, then only those multiples whose absence would pad too much.

    pad_max is the largest padding in units of the dimension (0: unlimited up to the maximum), pad_percent in
    percent of the next value, 0 to 50. The maximum always ends the list. ValueError when minimum > maximum.
    """
    _check(minimum, step, maximum)
    pad_max = pad_max or maximum
    values = [minimum]
    cursor = minimum
    while cursor <= step:
        cursor = max(1, values[-1] * 2)
        if cursor > maximum:
            break
        values.append(cursor)
    for current in range(cursor, maximum, step):
        following = current + step
        padding = following - values[-1] - 1
        too_much = padding * 100 > pad_percent * following or padding > pad_max
        if current > values[-1] and (too_much or current % pad_max == 0):
            values.append(current)
    return values if values[-1] == maximum else [*values, maximum]


def unified_alpha(minimum: int, turning: int, maximum: int) -> list[int]:
    """Six points at a quarter, a half and the whole of two values, and 0 when the minimum is 0 (seed 001)."""
    points = {point // part for point in (turning, maximum) for part in (4, 2, 1)}
    return sorted(points | ({0} if minimum == 0 else set()))


def _geometric(minimum: int, maximum: int, limit: int) -> list[float]:
    # One factor per step, multiplied: i / (limit - 1) rounds differently and moves points that are exact multiples.
    ratio, exponent = maximum / minimum, 1 / (limit - 1)
    return [minimum * ratio ** (exponent * i) for i in range(limit)]


def _round_up(value: float, step: int) -> int:
    return math.ceil(value / step) * step


def _check(minimum: int, step: int, maximum: int) -> None:
    if minimum > maximum:
        raise ValueError(f"min {minimum} is above max {maximum}; lower min or raise max")
    if (maximum - minimum) // step > MAX_VALUES:
        raise ValueError(f"a step of {step} up to {maximum} gives more than {MAX_VALUES} values; choose a larger step")


Ladder = Callable[[Range], list[int]]


@dataclass(frozen=True)
class Values:
    """Sorted distinct values per dimension."""

    prompt_batch: list[int]
    prompt_query: list[int]
    prompt_context: list[int]
    decode_batch: list[int]
    decode_blocks: list[int]


def plan_values(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Values:
    """The values of every dimension. Raises PlanImpossible with the dimension whose settings contradict."""
    chosen, ladder = _strategy(policy, limits, kv_blocks)
    context = [0]
    if limits.prefix_caching:
        context = _values("prompt.context", chosen.prompt_context, ladder)
    blocks = _values("decode.blocks", chosen.decode_blocks, ladder)
    if limits.contiguous_paged_attention and blocks[-1] < kv_blocks:
        blocks = [*blocks, kv_blocks]
    return Values(
        prompt_batch=_values("prompt.batchSize", chosen.prompt_batch, ladder),
        prompt_query=_values("prompt.query", chosen.prompt_query, ladder),
        prompt_context=context,
        decode_batch=_values("decode.batchSize", chosen.decode_batch, ladder),
        decode_blocks=blocks,
    )


def _strategy(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> tuple[Ranges, Ladder]:
    match policy.strategy:
        case Strategy.LINEAR:
            return linear_ranges(policy, limits, kv_blocks), _linear
        case Strategy.PADDING_AWARE:
            return padding_aware_ranges(policy, limits, kv_blocks), _padding_aware
        case Strategy.EXPONENTIAL:
            exact = limits.contiguous_paged_attention
            return exponential_ranges(limits, kv_blocks), lambda r: _exponential(r, exact)
    raise PlanImpossible(
        f"bucketing.strategy: {policy.strategy} makes no prompt and decode buckets from limits alone; "
        "choose exponential, linear, paddingAware, file or optimal"
    )


def _linear(r: Range) -> list[int]:
    return linear(r.min, r.step, r.max)


def _padding_aware(r: Range) -> list[int]:
    return padding_aware(r.min, r.step, r.max, r.pad_max, r.pad_percent)


def _exponential(r: Range, ends_exact: bool) -> list[int]:
    return exponential(r.min, r.step, r.max, r.limit, ends_exact=ends_exact)


def _values(dimension: str, r: Range, ladder: Ladder) -> list[int]:
    """The values of one dimension; only a prompt's context may be 0."""
    try:
        if r.min < 1 and dimension != "prompt.context":
            raise ValueError(f"min {r.min} is below 1; a batch has at least one of each")
        return ladder(r)
    except ValueError as error:
        raise PlanImpossible(f"bucketing.{dimension}: {error}") from error
