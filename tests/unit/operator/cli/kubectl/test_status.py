"""Durations as kubectl reads them."""

import pytest

from gaudi_operator.cli.kubectl.asking import Refused
from gaudi_operator.cli.kubectl.status import seconds


@pytest.mark.parametrize(
    ("text", "found"), [("0", 0), ("0s", 0), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("200ms", 0.2)]
)
def test_duration_is_read(text: str, found: float) -> None:
    assert seconds(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 m", "5m!", "soon"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="is no duration"):
        seconds(text)
