"""Foreign content is read or refused with a message. The contents are the same in every run. `make soak` tries more."""

import pytest

from tests.unit.runtime.hostile.fuzzed import fuzz
from tests.unit.runtime.hostile.readers import READERS


@pytest.mark.parametrize("name", READERS)
def test_any_content_is_read_or_refused_with_a_message(name: str) -> None:
    found = fuzz(name, 1, 600)
    assert found.wrong == []
    assert found.read > 0
    assert found.refused > 0
