"""Words of somebody else in a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.contract.text import on_one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is: é \N{SNOWMAN}", "as it is: é \N{SNOWMAN}"),
        ("two\nlines\r\n", "two lines  "),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}cba", "\\u202ecba"),
    ],
)
def test_orders_to_a_terminal_are_shown(text: str, shown: str) -> None:
    assert on_one_line(text) == shown


@given(st.text())
def test_whatever_comes_can_be_printed(text: str) -> None:
    assert on_one_line(text).isprintable()
