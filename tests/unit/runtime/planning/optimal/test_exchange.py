"""Greedy growth and exchange of buckets, compared with a search that computes every cost from scratch."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.lookup import Finder
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.planning.optimal.admissible_shapes import PromptSpace
from gaudi_runtime.planning.optimal.exchange import Buckets, ExchangeInput, exchange_buckets, grow_plan, improve_plan

GRID = sorted(map(Bucket._make, product((1, 2), (1, 2, 3), (0, 1))))
CORNER = Bucket(2, 3, 1)
CELLS = st.dictionaries(st.sampled_from(GRID), st.integers(1, 20).map(float), min_size=1)


def cost(bucket: Bucket) -> float:
    return float(bucket.batch_size * (bucket.query_len + 3 * bucket.num_blocks))


def price(bucket: Bucket) -> float:
    return 1.0 + bucket.query_len % 2


def market(cells: dict[Bucket, float], budget: float) -> ExchangeInput:
    return ExchangeInput(cells, GRID, (CORNER,), cost, price, budget)


def cost_of(plan: Buckets, cells: dict[Bucket, float]) -> float:
    """Return the cost of all cells. Each cell has the cost of the first bucket in the plan that holds the cell."""
    return sum(weight * cost(next(b for b in plan if _holds(b, cell))) for cell, weight in cells.items())


def _holds(bucket: Bucket, shape: Bucket) -> bool:
    return all(have >= want for have, want in zip(bucket, shape, strict=True))


def best_step(plan: Buckets, cells: dict[Bucket, float], slack: float) -> tuple[float, Bucket] | None:
    """Return the bucket with the largest gain per price, and its gain. If two are equal, the larger bucket wins."""
    steps = []
    for each in set(GRID) - set(plan):
        gain = cost_of(plan, cells) - cost_of(tuple(sorted((*plan, each))), cells)
        if gain > 0 and price(each) <= slack:
            steps.append((gain / price(each), each, gain))
    best = max(steps, default=None)
    return best and (best[2], best[1])


@given(CELLS, st.integers(1, 12))
def test_plan_grows_by_the_most_saving_bucket_per_price(cells: dict[Bucket, float], budget: int) -> None:
    plan: Buckets = (CORNER,)
    while step := best_step(plan, cells, budget - sum(map(price, plan))):
        plan = tuple(sorted((*plan, step[1])))
    assert grow_plan(market(cells, budget)) == plan


def test_bucket_without_savings_is_not_added() -> None:
    """Both candidates cost the same. After the larger candidate is added, the other candidate saves nothing."""
    candidates = [Bucket(1, 2, 0), Bucket(2, 1, 0), CORNER]
    plenty = ExchangeInput({Bucket(1, 1, 0): 1.0}, candidates, (CORNER,), cost, lambda _: 1.0, 9)
    assert grow_plan(plenty) == (Bucket(2, 1, 0), CORNER)


def exchange_once(plan: Buckets, cells: dict[Bucket, float], budget: float) -> Buckets | None:
    """Return the plan after the best exchange of one of the three least useful buckets."""
    losses = []
    for given_up in plan:
        rest = tuple(each for each in plan if each != given_up)
        if all(any(_holds(each, shape) for each in rest) for shape in (*cells, CORNER)):
            losses.append((cost_of(rest, cells) - cost_of(plan, cells), given_up, rest))
    for loss, _, rest in sorted(losses)[:3]:
        step = best_step(rest, cells, budget - sum(map(price, rest)))
        if step and step[0] > loss:
            return tuple(sorted((*rest, step[1])))
    return None


@given(CELLS, st.lists(st.sampled_from(GRID), max_size=5))
@settings(max_examples=60)
def test_buckets_are_exchanged_until_no_exchange_saves_cost(cells: dict[Bucket, float], some: list[Bucket]) -> None:
    plan: Buckets = tuple(sorted({*some, CORNER}))
    budget = sum(map(price, plan))
    found = exchange_buckets(market(cells, budget), plan)
    while better := exchange_once(plan, cells, budget):
        plan = better
    assert found == plan


def test_traffic_shape_without_a_bucket_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"^\(2, 3, 1\) has no bucket$"):
        market({CORNER: 1.0}, 9).cost_of((Bucket(2, 3, 0),))


SPACE = PromptSpace(
    Limits(max_model_len=8, max_num_seqs=2, max_num_prefill_seqs=2, max_num_batched_tokens=8, block_size=1),
    with_context=True,
)
NEEDED = SPACE.covering_buckets()


def better(traffic: dict[Bucket, float], budget: float, plan: Buckets) -> Buckets:
    return improve_plan(SPACE, traffic, cost, lambda _: 1.0, budget, plan)


TRAFFIC = {Bucket(1, 2, 0): 9.0, Bucket(1, 2, 5): 1.0, Bucket(2, 3, 1): 5.0}


def test_bucket_is_exchanged_for_a_bucket_that_saves_more() -> None:
    poor = tuple(sorted((*NEEDED, Bucket(1, 7, 1))))
    found = better(TRAFFIC, 3, poor)
    assert found == tuple(sorted((*NEEDED, Bucket(1, 2, 0))))
    assert Finder(found).find_position(1, 2, 5) is not None


def test_plan_of_more_than_24_graphs_is_unchanged() -> None:
    many = tuple(sorted({*NEEDED, *(Bucket(1, 7, blocks) for blocks in range(8)), *_long(15)}))
    assert len(many) == 25
    assert better(TRAFFIC, 25, many) == many
    fewer = tuple(bucket for bucket in many if bucket != Bucket(1, 7, 7))
    assert better(TRAFFIC, 24, fewer) != fewer


def _long(count: int) -> list[Bucket]:
    grid = (Bucket(1, query, blocks) for query, blocks in product((5, 6), range(8)))
    return list(grid)[:count]


def test_plan_for_one_dimensional_traffic_is_unchanged() -> None:
    plan = tuple(sorted((*NEEDED, Bucket(1, 7, 0))))
    assert better({Bucket(1, 2, 0): 9.0, Bucket(1, 4, 0): 9.0}, 3, plan) == plan
