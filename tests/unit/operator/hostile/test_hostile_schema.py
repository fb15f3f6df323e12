"""Every spec that the schema accepts is refused with a message or reconciled, within 512 MiB.

The specs are the same in every run; `make soak` tries new specs.
"""

import pytest

from tests.unit.operator.hostile.fuzzed import fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_random_specs_of_the_schema_result_in_a_valid_status(seed: int) -> None:
    found = fuzz(seed, 60)
    assert found.wrong == []
    assert found.specs == 60
    assert {"Accepted", "PlanImpossible"} <= found.reasons.keys()
    assert found.grown < 64 * 2**20
