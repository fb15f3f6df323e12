"""The values of all five dimensions of a plan, by strategy (docs/bucketing.md, Ranges)."""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets import ranges
from gaudi_runtime.buckets.defaults import (
    Range,
    Ranges,
    exponential_ranges,
    linear_ranges,
    padding_aware_ranges,
)
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import PlanImpossible

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
    return ranges.linear(r.min, r.step, r.max)


def _padding_aware(r: Range) -> list[int]:
    return ranges.padding_aware(r.min, r.step, r.max, r.pad_max, r.pad_percent)


def _exponential(r: Range, ends_exact: bool) -> list[int]:
    return ranges.exponential(r.min, r.step, r.max, r.limit, ends_exact=ends_exact)


def _values(dimension: str, r: Range, ladder: Ladder) -> list[int]:
    """The values of one dimension; only a prompt's context may be 0."""
    try:
        if r.min < 1 and dimension != "prompt.context":
            raise ValueError(f"min {r.min} is below 1; a batch has at least one of each")
        return ladder(r)
    except ValueError as error:
        raise PlanImpossible(f"bucketing.{dimension}: {error}") from error
