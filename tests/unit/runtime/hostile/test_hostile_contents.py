"""Whatever others have written is read, or refused in a sentence: the same in every run, more in `make soak`."""

import pytest

from tests.unit.runtime.hostile.fuzzed import fuzz
from tests.unit.runtime.hostile.readers import READERS


@pytest.mark.parametrize("name", READERS)
def test_any_content_is_read_or_refused_in_a_sentence(name: str) -> None:
    found = fuzz(name, 1, 600)
    assert found.wrong == []
    assert found.read > 0
    assert found.refused > 0
