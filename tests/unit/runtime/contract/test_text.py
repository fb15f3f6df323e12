"""Text from other sources, made safe for one line of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.contract.text import make_one_line


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
def test_control_sequences_are_escaped(text: str, shown: str) -> None:
    assert make_one_line(text) == shown


@given(st.text())
def test_any_text_can_be_printed(text: str) -> None:
    assert make_one_line(text).isprintable()
