"""What has our label costs the operator little, however large it is, and whoever it names as its owner."""

import pytest

from tests.unit.operator.hostile.strangers import OBJECTS, grown_by


@pytest.mark.parametrize("what", OBJECTS)
def test_large_objects_with_our_label_take_little_memory(what: str) -> None:
    """Kept whole, they take 180 to 800 MiB."""
    assert grown_by(what) < 120 * 2**20
