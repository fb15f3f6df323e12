"""The rungs of one dimension: the cheapest choice of a given number of rungs, compared with all choices."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.ladder import UNITS, Ladder, Rung, cheapest_within_budget

WEIGHTS = st.lists(st.integers(0, 50), min_size=1, max_size=9)


def ladder(weights: list[int], prices: list[float] | None = None) -> Ladder:
    """Return a ladder whose rungs have 1, 2, ... tokens and one graph each."""
    prices = prices or [1.0] * len(weights)
    rungs = zip(weights, prices, strict=True)
    return Ladder(
        BucketPhase.PROMPT,
        [Rung(Bucket(1, at, 0), float(weight), float(at), price) for at, (weight, price) in enumerate(rungs, start=1)],
    )


def every_choice(rungs: Ladder) -> list[tuple[int, ...]]:
    last = len(rungs.rungs) - 1
    return [(*chosen, last) for count in range(last + 1) for chosen in combinations(range(last), count)]


def test_exactly_keeps_the_rungs_with_the_most_weight() -> None:
    assert ladder([0, 9, 0, 0, 9, 0, 1]).cheapest_by_count(3) == (1, 4, 6)


def test_ladder_pads_every_request_to_the_next_rung() -> None:
    assert ladder([2, 3, 4]).cost((1, 2)) == 5 * 2 + 4 * 3


@given(WEIGHTS, st.data())
def test_exactly_returns_the_cheapest_choice_of_that_size(weights: list[int], data: st.DataObject) -> None:
    rungs = ladder(weights)
    count = data.draw(st.integers(1, len(weights)))
    kept = rungs.cheapest_by_count(count)
    assert len(kept) == count
    assert rungs.cost(kept) == min(rungs.cost(each) for each in every_choice(rungs) if len(each) == count)


@given(WEIGHTS, st.floats(0, 100))
def test_cheapest_returns_the_least_cost_plus_rated_price(weights: list[int], rate: float) -> None:
    rungs = ladder(weights, [1.0 + at % 3 for at in range(len(weights))])
    kept = rungs.cheapest_rungs(rate)
    best = min(rungs.cost(each) + rate * rungs.price(each) for each in every_choice(rungs))
    assert rungs.cost(kept) + rate * rungs.price(kept) == pytest.approx(best)


@given(WEIGHTS, st.floats(0, 100), st.data())
def test_exactly_with_a_rate_minimizes_cost_plus_rated_price(
    weights: list[int], rate: float, data: st.DataObject
) -> None:
    rungs = ladder(weights, [1.0 + at % 3 for at in range(len(weights))])
    count = data.draw(st.integers(1, len(weights)))
    kept = rungs.cheapest_by_count(count, rate)
    totals = [rungs.cost(each) + rate * rungs.price(each) for each in every_choice(rungs) if len(each) == count]
    assert rungs.cost(kept) + rate * rungs.price(kept) == pytest.approx(min(totals))


@given(WEIGHTS)
def test_gain_of_each_further_rung_decreases(weights: list[int]) -> None:
    rungs = ladder(weights)
    costs = [rungs.cost(rungs.cheapest_by_count(count)) for count in range(1, len(weights) + 1)]
    gains = [before - after for before, after in pairwise(costs)]
    assert gains == sorted(gains, reverse=True)


@given(WEIGHTS, st.integers(1, 40))
def test_knapsack_returns_the_cheapest_choice_within_the_budget(weights: list[int], budget: int) -> None:
    # The search rounds prices to whole units of the budget. Use prices in whole units, so that the result is exact.
    unit = budget / UNITS
    prices = [unit * ((at * 37) % 90 + 1) for at in range(len(weights))]
    rungs = ladder(weights, prices)
    kept = cheapest_within_budget(rungs, budget)
    fitting = [each for each in every_choice(rungs) if rungs.price(each) <= budget * (1 + 1e-9)]
    assert kept is not None
    assert rungs.cost(kept) == min(rungs.cost(each) for each in fitting)


def test_knapsack_is_none_if_the_last_rung_exceeds_the_budget() -> None:
    assert cheapest_within_budget(ladder([1, 1], [1.0, 9.0]), 8.0) is None
