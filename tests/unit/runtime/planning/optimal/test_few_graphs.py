"""Plans with few graphs compared with the best of all plans (tests/benchmarks/brute_force.py)."""

import pytest

from tests.benchmarks.brute_force import FEWEST, SPACES, excesses, gaps


@pytest.mark.parametrize("name", SPACES)
def test_cost_of_the_plan_is_close_to_brute_force(name: str) -> None:
    found = gaps(name)
    assert min(found) > -1e-9
    assert sum(found) / len(found) < 0.02


@pytest.mark.parametrize(("name", "mean"), list(zip(FEWEST, (0.25, 1.0), strict=True)))
def test_number_of_graphs_without_budget_is_close_to_the_minimum(name: str, mean: float) -> None:
    found = excesses(name)
    assert min(found) >= 0
    assert max(found) <= 2
    assert sum(found) / len(found) <= mean
