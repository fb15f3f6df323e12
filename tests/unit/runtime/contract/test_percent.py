"""Percentages of captured graphs: rounding, and whether a threshold is reached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.contract.report import percent, reaches_percent


@pytest.mark.parametrize(("part", "planned", "expected"), [(15, 24, 62), (999, 1000, 99), (48, 48, 100), (0, 3, 0)])
def test_percent_is_floored(part: int, planned: int, expected: int) -> None:
    assert percent(part, planned) == expected


def test_percent_without_planned_graphs_is_none() -> None:
    assert percent(0, 0) is None


def test_15_of_24_reach_62_percent() -> None:
    assert reaches_percent(15, 24, 62) is True


def test_15_of_24_do_not_reach_63_percent() -> None:
    assert reaches_percent(15, 24, 63) is False


def test_999_of_1000_do_not_reach_100_percent() -> None:
    assert reaches_percent(999, 1000, 100) is False


def test_threshold_without_planned_graphs_is_none() -> None:
    assert reaches_percent(0, 0, 100) is None


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(0, 100))
def test_threshold_agrees_with_the_shown_percentage(part: int, planned: int, wanted: int) -> None:
    shown = percent(part, planned)
    assert shown is not None
    assert reaches_percent(part, planned, wanted) == (shown >= wanted)
