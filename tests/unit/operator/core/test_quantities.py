"""Kubernetes quantities: parsed exactly, and written as the smallest sufficient quantity."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.quantities import format_memory_quantity, parse_byte_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4", Fraction(4)),
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        ("2k", Fraction(2000)),
        ("1M", Fraction(10**6)),
        ("1Gi", Fraction(2**30)),
        ("1024Mi", Fraction(2**30)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("1e0003", Fraction(1000)),
        ("12E", Fraction(12 * 10**18)),
        ("12E3", Fraction(12_000)),
        ("5n", Fraction(5, 10**9)),
    ],
)
def test_quantity_is_parsed_exactly(text: str, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "-1", "1GB", "1 Gi", "1e", "1e333"])
def test_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity such as 500m, 4 or 64Gi"):
        parse_quantity(text)


def test_bytes_are_rounded_down() -> None:
    assert parse_byte_quantity("1.5") == 1


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (3805, "3805"), (10_000, "10Ki"), (16 * 2**30, "16Gi"), (2**30 + 1, "1025Mi")]
)
def test_smallest_quantity_for_bytes(size: int, text: str) -> None:
    assert format_memory_quantity(size) == text


@given(st.integers(0, 2**60))
def test_smallest_quantity_holds_its_bytes_and_hardly_more(size: int) -> None:
    assert size <= parse_byte_quantity(format_memory_quantity(size)) <= size * 1.11 + 1
