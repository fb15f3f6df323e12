"""Whether a plan with few graphs can be bettered beyond rows of ladders (docs/traffic.md, How it chooses)."""

from dataclasses import replace
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.optimal.axes import Axes, Weights, choose_axes, round_up
from gaudi_runtime.optimal.exchange import Market, Plan, exchanged, grown
from gaudi_runtime.optimal.search import Worth
from gaudi_runtime.optimal.smoothing import smooth
from gaudi_runtime.optimal.space import Space

FEW_GRAPHS = 24
"""Up to so many graphs rows lose to plans of any form; beyond, the search would cost more than it gains."""

FEW_VALUES = {0: (), 1: (1,), 2: (12, 24), 3: (4, 8, 10)}


def bettered(space: Space, traffic: Weights, cost: Worth, price: Worth, budget: float, plan: Plan) -> Plan:
    """The cheapest of `plan`, what exchanges make of it, and what grows from the needed buckets, within `budget`."""
    if len(plan) > FEW_GRAPHS or _varying(traffic) < 2:
        return plan
    axes = choose_axes(space, traffic, FEW_VALUES)
    grid = {shape for shape in map(Bucket._make, product(*axes)) if space.admits(shape)}
    needed = space.corners()
    market = Market(_cells(space, traffic, axes), sorted({*grid, *needed, *plan}), needed, cost, price, budget)
    plans = (plan, exchanged(market, plan), exchanged(market, grown(market)))
    fine = replace(market, cells=_cells(space, traffic, choose_axes(space, traffic)))
    return min(plans, key=fine.cost_of)


def _varying(traffic: Weights) -> int:
    """In how many dimensions traffic has more than one value: with one, a single ladder is exact already."""
    return sum(len(set(values)) > 1 for values in zip(*traffic, strict=True))


def _cells(space: Space, traffic: Weights, axes: Axes) -> Weights:
    """Smoothed traffic on the axes; where rounding up leaves what is admissible, shapes stay as they are."""
    inside = {shape: weight for shape, weight in traffic.items() if all(map(space.admits, round_up({shape: 1}, axes)))}
    cells = {cell: weight for cell, weight in smooth(round_up(inside, axes), axes).items() if space.admits(cell)}
    return {**cells, **{shape: weight for shape, weight in traffic.items() if shape not in inside}}
