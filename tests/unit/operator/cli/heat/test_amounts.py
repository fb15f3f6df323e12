import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.cli.heat.amounts import byte_text, count_text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1.0K"), (367 * 2**20, "367M"), (1.43 * 2**30, "1.4G"), (33 * 2**40, "33T")],
)
def test_bytes_are_told_in_powers_of_1024(amount: float, text: str) -> None:
    assert byte_text(amount) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0"), (999, "999"), (1200, "1.2k"), (19_366, "19k"), (3e6, "3.0m")])
def test_counts_are_told_in_powers_of_1000(amount: float, text: str) -> None:
    assert count_text(amount) == text


@given(st.floats(0, 1e17))
def test_bytes_fit_a_cell(amount: float) -> None:
    assert len(byte_text(amount)) <= 5
