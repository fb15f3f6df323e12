"""The values of one range: linear and exponential steps between its minimum and maximum."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.planning.ranges import (
    Range,
    RangeDimensions,
    exponential_range_values,
    exponential_ranges,
    linear_range_values,
    linear_ranges,
    padding_aware_range_values,
    padding_aware_ranges,
    plan_range_values,
    range_config_lines,
)
from tests.support.policies import EXPONENTIAL


def test_linear_with_ramp_doubles_up_to_the_step() -> None:
    assert linear_range_values(2, 32, 64) == [2, 4, 8, 16, 32, 64]


def test_linear_with_min_at_the_step_has_no_ramp() -> None:
    assert linear_range_values(128, 128, 512) == [128, 256, 384, 512]


def test_linear_with_max_off_the_step_ends_below_max() -> None:
    assert linear_range_values(128, 128, 500) == [128, 256, 384]


def test_linear_with_min_zero_starts_at_step_and_adds_zero() -> None:
    assert linear_range_values(0, 4, 12) == [0, 4, 8, 12]


def test_linear_with_min_and_max_zero_returns_only_zero() -> None:
    assert linear_range_values(0, 4, 0) == [0]


def test_linear_with_min_off_the_step_drops_multiples_below_it() -> None:
    assert linear_range_values(200, 128, 512) == [256, 384, 512]


def test_linear_with_min_above_max_is_refused() -> None:
    with pytest.raises(ValueError, match=r"min 9 is above max 8\. Lower min or raise max"):
        linear_range_values(9, 1, 8)


def test_linear_with_a_hundred_million_values_is_refused() -> None:
    with pytest.raises(ValueError, match="Choose a larger step"):
        linear_range_values(1, 1, 100_000_000)


def test_linear_with_as_many_values_as_allowed_is_accepted() -> None:
    assert linear_range_values(2, 2, 20_003)[-1] == 20_002


def test_linear_with_one_value_more_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^a step of 2 up to 20004 gives more than 10000 values\. Choose a larger step$"
    ):
        linear_range_values(2, 2, 20_004)


def test_exponential_with_one_point_returns_only_max() -> None:
    assert exponential_range_values(1, 2, 16, 1) == [16]


def test_exponential_with_min_one_starts_at_step_and_adds_one() -> None:
    assert exponential_range_values(1, 2, 16, 5) == [1, 2, 4, 6, 10, 16]


def test_exponential_beyond_max_is_clamped_to_max() -> None:
    assert exponential_range_values(128, 128, 5781, 2) == [128, 5781]


def test_exponential_ends_with_max_unrounded() -> None:
    assert exponential_range_values(1, 4, 30, 4) == [1, 4, 8, 16, 30]


def test_exponential_with_min_two_starts_at_two() -> None:
    assert exponential_range_values(2, 1, 16, 4) == [2, 4, 8, 16]


def test_exponential_whose_point_is_exact_multiple_is_not_rounded_further() -> None:
    assert 4096 in exponential_range_values(128, 128, 8192, 13)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((0, 8, 64, 64, 0), [0, 1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]),
        ((0, 8, 64, 64, 50), [0, 1, 2, 4, 8, 16, 32, 64]),
        ((0, 8, 64, 16, 50), [0, 1, 2, 4, 8, 16, 32, 48, 64]),
        ((16, 16, 128, 32, 25), [16, 32, 48, 64, 80, 96, 128]),
        ((2, 2, 8, 8, 50), [2, 4, 8]),
    ],
)
def test_padding_aware_keeps_values_that_limit_the_padding(
    settings: tuple[int, int, int, int, int], expected: list[int]
) -> None:
    assert padding_aware_range_values(*settings) == expected


def test_pad_max_defaults_to_the_maximum() -> None:
    assert padding_aware_range_values(0, 8, 64, 0, 50) == padding_aware_range_values(0, 8, 64, 64, 50)


def test_padding_aware_with_min_at_max_is_one_value() -> None:
    assert padding_aware_range_values(128, 128, 128, 32, 25) == [128]


LIMITS = Limits(
    max_model_len=1000,
    max_num_seqs=10,
    max_num_prefill_seqs=5,
    max_num_batched_tokens=600,
    block_size=128,
    contiguous_paged_attention=False,
    prefix_caching=True,
)
CONTIGUOUS = LIMITS.model_copy(update={"contiguous_paged_attention": True})
LONG = LIMITS.model_copy(update={"max_model_len": 8192})
ALL = EXPONENTIAL


def test_exponential_default_ranges_follow_the_rule() -> None:
    assert exponential_ranges(LIMITS, 20) == RangeDimensions(
        Range(1, 2, 5, 4), Range(128, 128, 600, 10), Range(0, 1, 6, 4), Range(1, 2, 10, 5), Range(1, 10, 60, 7)
    )


@pytest.mark.parametrize(
    ("limits", "kv_blocks", "bounded", "blocks"),
    [
        (LIMITS, 40, True, Range(1, 10, 80, 8)),
        (LIMITS, 20, False, Range(1, 10, 80, 10)),
        (LIMITS, 27, False, Range(1, 10, 80, 8)),
        (LIMITS, 26, False, Range(1, 10, 80, 10)),
        (LIMITS, 5, False, Range(1, 10, 80, 12)),
        (CONTIGUOUS, 20, True, Range(1, 10, 20, 6)),
        (CONTIGUOUS, 20, False, Range(1, 10, 20, 6)),
        (CONTIGUOUS, 90, True, Range(1, 10, 80, 8)),
    ],
)
def test_exponential_decode_blocks_end_with_blocks_of_all_sequences(
    limits: Limits, kv_blocks: int, bounded: bool, blocks: Range
) -> None:
    assert exponential_ranges(limits, kv_blocks, bounded=bounded).decode_blocks == blocks


@pytest.mark.parametrize(
    ("length", "tokens", "context"),
    [(8191, 600, Range(0, 1, 62, 7)), (8192, 600, Range(0, 1, 59, 7)), (300, 600, Range(0, 1, 1, 2))],
)
def test_exponential_context_of_long_model_is_limited_by_tokens(length: int, tokens: int, context: Range) -> None:
    limits = LIMITS.model_copy(update={"max_model_len": length, "max_num_batched_tokens": tokens})
    assert exponential_ranges(limits, 20).prompt_context == context


def test_linear_default_ranges_follow_the_rule() -> None:
    assert linear_ranges(ALL, LIMITS, 20) == RangeDimensions(
        Range(1, 1, 5), Range(128, 128, 600), Range(0, 1, 6), Range(1, 32, 10), Range(1, 128, 128)
    )
    assert linear_ranges(ALL, LONG, 20).decode_blocks == Range(1, 128, 640)
    assert linear_ranges(ALL, CONTIGUOUS, 20).decode_blocks == Range(1, 128, 20)


def test_padding_aware_default_ranges_follow_the_rule() -> None:
    found = padding_aware_ranges(ALL, LIMITS, 200)
    assert found == RangeDimensions(
        Range(1, 1, 5, 0, 2, 25),
        Range(128, 128, 600, 0, 150, 25),
        Range(0, 2, 7, 0, 5, 25),
        Range(1, 2, 10, 0, 3, 25),
        Range(128, 128, 128, 0, 32, 25),
    )
    assert padding_aware_ranges(ALL, LONG, 200).decode_blocks == Range(128, 128, 640, 0, 160, 25)
    assert padding_aware_ranges(ALL, CONTIGUOUS, 200).decode_blocks == Range(128, 128, 200, 0, 50, 25)


def values(limits: Limits, **device: Any) -> RangeDimensions[list[int]]:
    return plan_range_values(ALL, limits, replace(DeviceBlocks(20, 128, 128), **device))


def test_contiguous_decode_blocks_end_with_the_device_blocks() -> None:
    assert values(CONTIGUOUS).decode_blocks == [1, 10, 20]
    assert values(CONTIGUOUS, count=95).decode_blocks[-2:] == [80, 95]
    assert values(LIMITS, count=95).decode_blocks[-1] == 80


def test_queries_are_rounded_up_to_the_step_of_device() -> None:
    assert values(LIMITS, query_step=256).prompt_query == [256, 512, 768]


SMALL = st.integers(1, 300)


@given(SMALL, SMALL, SMALL)
def test_linear_is_sorted_distinct_and_within_the_range(low: int, step: int, width: int) -> None:
    values = linear_range_values(low, step, low + width)
    assert values == sorted(set(values))
    assert all(low <= value <= low + width for value in values)


@given(SMALL, SMALL, st.integers(0, 3000), st.integers(0, 300), st.integers(0, 50))
def test_padding_aware_is_sorted_distinct_and_spans_min_to_max(
    low: int, step: int, width: int, pad_max: int, percent: int
) -> None:
    values = padding_aware_range_values(low, step, low + width, pad_max, percent)
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (low, low + width)


@given(SMALL, st.integers(1, 5000), st.integers(1, 20))
def test_exponential_is_sorted_distinct_and_ends_at_most_at_max(step: int, high: int, limit: int) -> None:
    values = exponential_range_values(1, step, max(step, high), limit)
    assert values == sorted(set(values))
    assert values[-1] == max(step, high)


@pytest.mark.parametrize(
    ("strategy", "lines"),
    [
        (
            Strategy.EXPONENTIAL,
            [
                "Prompt bucket config (min, step, max_warmup, limit) bs:[1, 2, 1, 1], query:[128, 128, 1024, 10], "
                "blocks:[0, 1, 7, 4]",
                "Decode bucket config (min, step, max_warmup, limit) bs:[1, 2, 4, 3], block:[1, 4, 32, 6]",
            ],
        ),
        (
            Strategy.LINEAR,
            [
                "Prompt bucket config (min, step, max_warmup) bs:[1, 1, 1], query:[128, 128, 1024], blocks:[0, 1, 7]",
                "Decode bucket config (min, step, max_warmup) bs:[1, 32, 4], block:[1, 128, 60]",
            ],
        ),
        (Strategy.OPTIMAL, []),
    ],
)
def test_ranges_are_described_as_the_plugin_logs_them(strategy: Strategy, lines: list[str]) -> None:
    limits = Limits(
        max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024, block_size=128, prefix_caching=True
    )
    assert range_config_lines(BucketPolicy(strategy=strategy), limits, DeviceBlocks(60, 128, 128)) == lines


def test_ranges_without_context_are_described_without_blocks() -> None:
    limits = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024, block_size=128)
    prompt, _ = range_config_lines(BucketPolicy(strategy=Strategy.LINEAR), limits, DeviceBlocks(60, 128, 128))
    assert prompt == "Prompt bucket config (min, step, max_warmup) bs:[1, 1, 1], query:[128, 128, 1024]"
