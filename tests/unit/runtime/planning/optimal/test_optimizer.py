"""The cheapest selection within a budget, compared with all selections if they can be enumerated."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.ladder import UNITS, Ladder, Rung
from gaudi_runtime.planning.optimal.optimizer import FittedSelection, fit_to_budget
from gaudi_runtime.planning.optimal.selection import cheapest_of_choices, choice_of_rungs, sum_of_choices

WEIGHTS = st.lists(st.integers(0, 50), min_size=1, max_size=6)


def ladder(*rungs: tuple[float, float, float]) -> Ladder:
    """Return a ladder with rungs given as (weight, cost, price)."""
    return Ladder(BucketPhase.PROMPT, [Rung(Bucket(1, at, 0), *rung) for at, rung in enumerate(rungs)])


def graphs(weights: list[int]) -> Ladder:
    """Return a ladder whose rungs have 1, 2, ... tokens and one graph each."""
    return ladder(*((float(weight), float(at), 1.0) for at, weight in enumerate(weights, start=1)))


def least(ladders: list[Ladder], budget: float) -> float:
    """Return the cost of the cheapest of all selections within the budget."""
    found = []
    for kept in product(*(choices(each) for each in ladders)):
        pairs = list(zip(ladders, kept, strict=True))
        if sum(each.price(rungs) for each, rungs in pairs) <= budget * (1 + 1e-9):
            found.append(sum(each.cost(rungs) for each, rungs in pairs))
    return min(found)


def choices(rungs: Ladder) -> list[tuple[int, ...]]:
    last = len(rungs.rungs) - 1
    return [(*chosen, last) for count in range(last + 1) for chosen in combinations(range(last), count)]


def fitted(ladders: list[Ladder], budget: float) -> FittedSelection:
    found = fit_to_budget(sum_of_choices([choice_of_rungs(each) for each in ladders]), budget)
    assert found is not None
    kept = found.selection.ladders
    assert found.selection.cost == pytest.approx(sum(each.cost for each in kept))
    assert found.selection.price == pytest.approx(sum(each.price for each in kept))
    return found


@given(WEIGHTS, WEIGHTS, st.data())
def test_ladders_with_a_shared_budget_have_the_least_cost(
    one: list[int], other: list[int], data: st.DataObject
) -> None:
    ladders = [graphs(one), graphs(other)]
    budget = data.draw(st.integers(2, len(one) + len(other)))
    found = fitted(ladders, budget)
    assert found.selection.price <= budget
    assert found.selection.cost == pytest.approx(least(ladders, budget))


@given(WEIGHTS, WEIGHTS, st.data())
def test_next_gain_is_the_saving_of_one_more_graph(one: list[int], other: list[int], data: st.DataObject) -> None:
    ladders = [graphs(one), graphs(other)]
    budget = data.draw(st.integers(2, len(one) + len(other)))
    gain = least(ladders, budget) - least(ladders, budget + 1)
    assert fitted(ladders, budget).next_gain == pytest.approx(gain)


@given(WEIGHTS, st.integers(1, 40))
def test_single_ladder_with_different_prices_has_the_least_cost(weights: list[int], budget: int) -> None:
    unit = budget / UNITS
    prices = [unit * ((at * 37) % 90 + 1) for at in range(len(weights))]
    rungs = zip(weights, prices, strict=True)
    alone = ladder(*((float(weight), float(at), price) for at, (weight, price) in enumerate(rungs, start=1)))
    assert fitted([alone], budget).selection.cost == pytest.approx(least([alone], budget))


def test_budget_of_exactly_the_minimum_suffices() -> None:
    assert fitted([graphs([3, 4])], 1).selection.price == 1


def test_budget_below_the_minimum_returns_none() -> None:
    assert fit_to_budget(choice_of_rungs(graphs([3, 4])), 0.5) is None


def test_sufficient_budget_selects_every_rung() -> None:
    found = fitted([graphs([3, 4, 5])], 3)
    assert (found.selection.cost, found.selection.price, found.next_gain) == (3 + 4 * 2 + 5 * 3, 3, 0.0)


def test_rung_without_savings_is_not_added() -> None:
    """The second ladder has no traffic below its last rung.

    The budget is too small for all rungs of the first ladder.
    """
    found = fitted([graphs([9, 9, 9, 9]), graphs([0, 5])], 4).selection
    assert [len(kept.positions) for kept in found.ladders] == [3, 1]


def test_remaining_budget_is_not_spent_without_savings() -> None:
    """The remaining budget is 2. The rung with savings has price 5, and the rung with price 1 has no traffic."""
    ladders = [ladder((9, 1, 5), (1, 2, 1)), ladder((0, 1, 1), (5, 2, 1))]
    assert fitted(ladders, 4).selection.price == 2


def test_cheaper_form_is_thinned_to_fit_the_budget() -> None:
    """One ladder with price 1 costs 50.

    Two ladders together have price 5 and cost 21. Without one rung of the first ladder, they have price 4 and cost 29.
    """
    plain = choice_of_rungs(ladder((1, 50, 1)))
    rich = sum_of_choices([choice_of_rungs(ladder((weight, 1, 1), (1, 2, 1.5))) for weight in (8, 9)])
    found = fit_to_budget(cheapest_of_choices(plain, rich), 4.5)
    assert found is not None
    assert (found.selection.cost, found.selection.price) == (29, 4)


def test_remaining_budget_buys_the_largest_saving() -> None:
    """The remaining budget is 3. One rung of price 3 saves 9, which is more than the 4 of a rung of price 1."""
    ladders = [ladder((2, 1, 1), (7, 2, 3), (0, 3, 1)), ladder((30, 1, 6), (0, 2, 1))]
    found = fitted(ladders, 5).selection
    assert (found.cost, found.price) == (2 * 9 + 60, 5)
    assert found.cost == least(ladders, 5)
