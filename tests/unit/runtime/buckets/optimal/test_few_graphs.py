"""Plans with few graphs beside the best of all plans, on small random traffic (tests/benchmarks/brute_force.py)."""

import pytest

from tests.benchmarks.brute_force import SPACES, gaps


@pytest.mark.parametrize("name", SPACES)
def test_plan_is_close_to_the_best_and_never_cheaper(name: str) -> None:
    found = gaps(name)
    assert min(found) > -1e-9
    assert sum(found) / len(found) < 0.02
