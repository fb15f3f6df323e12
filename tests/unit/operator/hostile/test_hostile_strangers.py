"""What strangers label as ours costs the operator little, however large it is."""

import pytest

from tests.unit.operator.hostile.strangers import CONTENTS, grown_by


@pytest.mark.parametrize("what", CONTENTS)
def test_large_objects_of_strangers_take_little_memory(what: str) -> None:
    """Ten of them took 350 to 800 MiB."""
    assert grown_by(what) < 120 * 2**20
