"""Foreign objects of any size and owner with the operator's label take little memory."""

import pytest

from tests.unit.operator.hostile.strangers import OBJECTS, grown_by


@pytest.mark.parametrize("what", OBJECTS)
def test_large_foreign_objects_use_little_memory(what: str) -> None:
    """If the operator kept these objects completely, they would take 180 to 800 MiB."""
    assert grown_by(what) < 120 * 2**20
