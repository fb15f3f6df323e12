import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.ranges import exponential, linear, padding_aware


def test_linear_with_ramp_doubles_up_to_the_step() -> None:
    assert linear(2, 32, 64) == [2, 4, 8, 16, 32, 64]


def test_linear_with_min_at_the_step_has_no_ramp() -> None:
    assert linear(128, 128, 512) == [128, 256, 384, 512]


def test_linear_with_max_off_the_step_ends_below_max() -> None:
    assert linear(128, 128, 500) == [128, 256, 384]


def test_linear_with_min_zero_starts_at_step_and_adds_zero() -> None:
    assert linear(0, 4, 12) == [0, 4, 8, 12]


def test_linear_with_min_and_max_zero_is_zero() -> None:
    assert linear(0, 4, 0) == [0]


def test_linear_with_min_off_the_step_drops_multiples_below_it() -> None:
    assert linear(200, 128, 512) == [256, 384, 512]


def test_linear_with_min_above_max_is_refused() -> None:
    with pytest.raises(ValueError, match="min 9 is above max 8; lower min or raise max"):
        linear(9, 1, 8)


def test_linear_with_a_hundred_million_values_is_refused() -> None:
    with pytest.raises(ValueError, match="choose a larger step"):
        linear(1, 1, 100_000_000)


def test_exponential_with_one_point_is_max() -> None:
    assert exponential(1, 2, 16, 1, ends_exact=False) == [16]


def test_exponential_with_min_one_starts_at_step_and_adds_one() -> None:
    assert exponential(1, 2, 16, 5, ends_exact=False) == [1, 2, 4, 6, 10, 16]


def test_exponential_beyond_max_is_clamped_to_max() -> None:
    assert exponential(128, 128, 5781, 2, ends_exact=False) == [128, 5781]


def test_exponential_ending_exactly_keeps_max_unrounded() -> None:
    assert exponential(1, 4, 30, 4, ends_exact=True) == [1, 4, 8, 16, 30]


def test_exponential_whose_point_is_exact_multiple_is_not_rounded_further() -> None:
    assert 4096 in exponential(128, 128, 8192, 13, ends_exact=False)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((0, 8, 64, 64, 0), [0, 1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]),
        ((0, 8, 64, 64, 50), [0, 1, 2, 4, 8, 16, 32, 64]),
        ((0, 8, 64, 16, 50), [0, 1, 2, 4, 8, 16, 32, 48, 64]),
        ((16, 16, 128, 32, 25), [16, 32, 48, 64, 80, 96, 128]),
    ],
)
def test_padding_aware_keeps_values_that_would_pad_too_much(
    settings: tuple[int, int, int, int, int], expected: list[int]
) -> None:
    assert padding_aware(*settings) == expected


def test_padding_aware_without_pad_max_takes_max() -> None:
    assert padding_aware(0, 8, 64, 0, 50) == padding_aware(0, 8, 64, 64, 50)


def test_padding_aware_with_min_at_max_is_one_value() -> None:
    assert padding_aware(128, 128, 128, 32, 25) == [128]


SMALL = st.integers(1, 300)


@given(SMALL, SMALL, SMALL)
def test_linear_is_sorted_distinct_and_inside(low: int, step: int, width: int) -> None:
    values = linear(low, step, low + width)
    assert values == sorted(set(values))
    assert all(low <= value <= low + width for value in values)


@given(SMALL, SMALL, st.integers(0, 3000), st.integers(0, 300), st.integers(0, 50))
def test_padding_aware_is_sorted_distinct_and_spans_min_to_max(
    low: int, step: int, width: int, pad_max: int, percent: int
) -> None:
    values = padding_aware(low, step, low + width, pad_max, percent)
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (low, low + width)


@given(SMALL, st.integers(1, 5000), st.integers(1, 20), st.booleans())
def test_exponential_is_sorted_distinct_and_ends_at_most_at_max(step: int, high: int, limit: int, exact: bool) -> None:
    values = exponential(1, step, max(step, high), limit, ends_exact=exact)
    assert values == sorted(set(values))
    assert values[-1] == max(step, high)
