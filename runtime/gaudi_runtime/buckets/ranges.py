"""The ranges of a plan: defaults per strategy, and what users may override (docs/bucketing.md, Default ranges).

For each strategy one function takes the model's limits and the number of KV blocks on the device and returns a Range
per dimension. Users override by a BucketPolicy, which may be read from the bucket variables of public releases
(docs/bucketing.md, Variables); a warning names every setting that the chosen strategy does not read.
"""
# DOCS
# """The values of a plan's dimensions, by strategy (docs/bucketing.md, Ranges).
#
# First the values of one dimension: sorted and distinct. Impossible settings raise ValueError with a clause, and
# `plan_values`, which makes the values of all five, completes it with the dimension's name.
# """

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, RangeSettings, Strategy
from gaudi_runtime.errors import ConfigError, PlanImpossible
from gaudi_runtime.units import quoted

LONG_MODEL_LEN = 8192
"""From this model length on, long-context rules apply."""


@dataclass(frozen=True)
class Range:
    """The settings of one dimension after defaults and overrides; a strategy reads only what it knows."""

    min: int
    step: int
    max: int
    limit: int = 0
    pad_max: int = 0
    pad_percent: int = 0

    def override(self, settings: RangeSettings) -> "Range":
        """Replace every value that the user gave."""
        return replace(self, **settings.model_dump(exclude_none=True))


@dataclass(frozen=True)
class Ranges:
    """The five dimensions of a plan."""

    prompt_batch: Range
    prompt_query: Range
    prompt_context: Range
    decode_batch: Range
    decode_blocks: Range


def ceil_log2(value: int) -> int:
    """Exponent of the smallest power of two that is >= value (value >= 1)."""
    return (value - 1).bit_length()


def exponential_ranges(limits: Limits, kv_blocks: int) -> Ranges:
    """Five ranges that depend on the limits only: users cannot override them."""
    block, seqs, prefills = limits.block_size, limits.max_num_seqs, limits.max_num_prefill_seqs
    tokens = limits.max_num_batched_tokens
    context = _exponential_context(limits)
    ceiling = kv_blocks if limits.contiguous_paged_attention else 3 * kv_blocks
    blocks = min(math.ceil(limits.max_model_len / block) * seqs, ceiling)
    return Ranges(
        prompt_batch=Range(1, 2, prefills, ceil_log2(prefills) + 1),
        prompt_query=Range(block, block, tokens, ceil_log2(tokens)),
        prompt_context=Range(0, 1, context, 2 if context == 1 else ceil_log2(context) + 1),
        decode_batch=Range(1, 2, seqs, ceil_log2(seqs) + 1),
        decode_blocks=Range(1, seqs, blocks, ceil_log2(blocks) + 1),
    )


def _exponential_context(limits: Limits) -> int:
    """Largest context in blocks: what is left of the model length after the shortest (or, long, the fullest) query."""
    long = limits.max_model_len >= LONG_MODEL_LEN
    query = limits.max_num_batched_tokens if long else limits.block_size
    return max(1, (limits.max_model_len - query) // limits.block_size)


def linear_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Ranges:
    """Evenly spaced values; `policy` overrides every setting."""
    block, length, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    query = Range(block, block, limits.max_num_batched_tokens).override(policy.prompt.query)
    blocks = max(length * seqs // block, block)
    if limits.contiguous_paged_attention:
        blocks = kv_blocks
    return Ranges(
        prompt_batch=Range(1, 1, limits.max_num_prefill_seqs).override(policy.prompt.batch_size),
        prompt_query=query,
        prompt_context=Range(0, 1, max(0, (length - query.min) // block)).override(policy.prompt.context),
        decode_batch=Range(1, 32, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit(Range(1, block, blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def padding_aware_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Ranges:
    """Values whose absence would pad too much; `policy` overrides every setting."""
    block, length, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    tokens, prefills = limits.max_num_batched_tokens, limits.max_num_prefill_seqs
    query = _padded(block, block, tokens).override(policy.prompt.query)
    context = max(0, math.ceil((length - query.min) / block))
    blocks = max(math.ceil(length * seqs / block), block)
    if limits.contiguous_paged_attention:
        blocks = kv_blocks
    return Ranges(
        prompt_batch=_padded(1, 1, prefills).override(policy.prompt.batch_size),
        prompt_query=query,
        prompt_context=Range(0, 2, context, pad_max=math.ceil(tokens / block), pad_percent=25).override(
            policy.prompt.context
        ),
        decode_batch=_padded(1, 2, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit(_padded(block, block, blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def _padded(minimum: int, step: int, maximum: int) -> Range:
    return Range(minimum, step, maximum, pad_max=math.ceil(maximum / 4), pad_percent=25)


def _fit(blocks: Range, limits: Limits, kv_blocks: int) -> Range:
    """Bring a decode-block range down to the blocks that exist, keeping its minimum below its maximum."""
    if limits.contiguous_paged_attention and blocks.max > kv_blocks:
        blocks = replace(blocks, max=kv_blocks)
    if blocks.min > blocks.max:
        blocks = replace(blocks, min=max(1, blocks.max - blocks.step))
    return blocks


_NAME = re.compile(r"VLLM_(PROMPT|DECODE)_(BS|QUERY|SEQ|CTX|BLOCK)_BUCKET_(MIN|STEP|MAX|LIMIT|PAD_MAX|PAD_PERCENT)")
_DIMENSIONS = {
    ("PROMPT", "BS"): "batch_size",
    ("PROMPT", "SEQ"): "query",
    ("PROMPT", "QUERY"): "query",
    ("PROMPT", "CTX"): "context",
    ("DECODE", "BS"): "batch_size",
    ("DECODE", "BLOCK"): "blocks",
}
Settings = dict[str, dict[str, dict[str, int]]]
Place = tuple[str, str, str]
"""Phase, dimension and setting: where a variable goes."""


def policy_from_env(strategy: Strategy, variables: Mapping[str, str | int]) -> BucketPolicy:
    """A policy with the ranges that `variables` set, such as VLLM_DECODE_BLOCK_BUCKET_MAX.

    SEQ is the old name of QUERY and yields to it. Raises ConfigError naming the variable at fault.
    """
    settings: Settings = {"prompt": {}, "decode": {}}
    written: dict[Place, str] = {}
    # Old names first, so that the new one is applied last and wins.
    for name in sorted(variables, key=lambda name: "_SEQ_" not in name):
        phase, dimension, setting = place = _place(name)
        settings[phase].setdefault(dimension, {})[setting] = _whole(name, variables[name])
        written[place] = name
    return _validated(strategy, settings, written)


def _place(name: str) -> Place:
    match = _NAME.fullmatch(name)
    dimension = match and _DIMENSIONS.get((match[1], match[2]))
    if not match or not dimension:
        raise ConfigError(_why_no_bucket_variable(name))
    return match[1].lower(), dimension, match[3].lower()


def _why_no_bucket_variable(name: str) -> str:
    # Imported here: the table of all knobs is read only to answer a mistake.
    from gaudi_runtime.knobs.check import unknown_name
    from gaudi_runtime.knobs.table import knobs

    if name in knobs():
        return f"{name} is not a bucket variable: leave it out of env (docs/bucketing.md, Variables)"
    return unknown_name(name)


def _whole(name: str, value: str | int) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {quoted(repr(value))} is not a whole number") from error


def _validated(strategy: Strategy, settings: Settings, written: Mapping[Place, str]) -> BucketPolicy:
    try:
        return BucketPolicy.model_validate({"strategy": strategy, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        phase, dimension, setting = map(str, first["loc"])
        name = written[phase, dimension, setting]
        raise ConfigError(f"{name}: {first['msg']}, got {quoted(str(first['input']))}") from error


_READ_BY = {
    Strategy.LINEAR: {"min", "step", "max"},
    Strategy.PADDING_AWARE: {"min", "step", "max", "padMax", "padPercent"},
}


def ignored_settings(policy: BucketPolicy, limits: Limits) -> Iterator[str]:
    """One sentence per setting without effect, named as users write it."""
    for dimension, settings in _dimensions(policy):
        without_context = dimension == "prompt.context" and not limits.prefix_caching
        for name in settings.model_dump(by_alias=True, exclude_none=True):
            if without_context:
                yield f"bucketing.{dimension}.{name} is ignored: prefix caching is off, so prompts have no context"
            elif name not in _read(policy.strategy, dimension, limits):
                yield f"bucketing.{dimension}.{name} is ignored by the {policy.strategy} strategy"
    if policy.file is not None and policy.strategy is not Strategy.FILE:
        yield f"bucketing.file is ignored by the {policy.strategy} strategy"
    if policy.optimal is not None and policy.strategy is not Strategy.OPTIMAL:
        yield f"bucketing.optimal is ignored by the {policy.strategy} strategy"


def _dimensions(policy: BucketPolicy) -> Iterator[tuple[str, RangeSettings]]:
    yield "prompt.batchSize", policy.prompt.batch_size
    yield "prompt.query", policy.prompt.query
    yield "prompt.context", policy.prompt.context
    yield "decode.batchSize", policy.decode.batch_size
    yield "decode.blocks", policy.decode.blocks


def _read(strategy: Strategy, dimension: str, limits: Limits) -> set[str]:
    """The settings that have an effect. A long model's context is capped by `max` under every ranged strategy."""
    caps = limits.max_model_len >= LONG_MODEL_LEN and dimension == "prompt.context"
    if strategy is Strategy.EXPONENTIAL:
        return {"max"} if caps else set()
    return _READ_BY.get(strategy, set())


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
