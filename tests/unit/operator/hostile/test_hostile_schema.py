"""Whatever the schema lets through is refused in a sentence or reconciled, in a process of 512 MiB; the same specs in
every run, and new ones with `make soak`.
"""

import pytest

from tests.unit.operator.hostile.fuzzed import fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_any_object_of_the_schema_ends_in_a_status(seed: int) -> None:
    found = fuzz(seed, 30, plan_seconds=0.5)
    assert found.wrong == []
    assert found.specs == 30
    assert {"Accepted", "PlanImpossible"} <= found.reasons.keys()
    # Of the process that decides: no plan is made in it.
    assert found.grown < 64 * 2**20
