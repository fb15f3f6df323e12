"""Plans with few graphs compared with the best of all plans (tests/benchmarks/brute_force.py)."""

import pytest

from tests.benchmarks.brute_force import FEWEST, SPACES, excesses, gaps


@pytest.mark.parametrize("name", SPACES)
def test_plan_is_close_to_the_best_and_never_cheaper(name: str) -> None:
    found = gaps(name)
    assert min(found) > -1e-9
    assert sum(found) / len(found) < 0.02


@pytest.mark.parametrize(("name", "mean"), list(zip(FEWEST, (0.25, 1.0), strict=True)))
def test_graphs_without_a_budget_are_close_to_the_fewest(name: str, mean: float) -> None:
    found = excesses(name)
    assert min(found) >= 0
    assert max(found) <= 2
    assert sum(found) / len(found) <= mean
