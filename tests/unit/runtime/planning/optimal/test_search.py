"""The search that adds, removes and exchanges buckets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeShapeSpace, holds_shape
from gaudi_runtime.planning.optimal.axes import Axes
from gaudi_runtime.planning.optimal.cost import Price, price_in_graphs
from gaudi_runtime.planning.optimal.optimizer import optimize_within_budget
from gaudi_runtime.planning.optimal.search import Search, SearchPhaseInput
from tests.support.token_cost import token_cost

DECODE = BucketPhase.DECODE
AXES: Axes = ([1, 2, 3, 4, 6, 8], [1], [1, 2, 4, 6, 8, 12, 16, 24])
CELLS = st.dictionaries(
    st.builds(Bucket, st.sampled_from(AXES[0]), st.just(1), st.sampled_from(AXES[2])).filter(lambda c: c[0] <= c[2]),
    st.floats(0.5, 100),
    min_size=1,
    max_size=12,
)
COST = token_cost(1)


def search_of(cells: dict[Bucket, float], *, rows: bool = False, price: Price = price_in_graphs) -> Search:
    limits = Limits(
        max_model_len=24,
        max_num_seqs=8,
        max_num_batched_tokens=24,
        block_size=1,
        contiguous_paged_attention=rows,
    )
    return Search([SearchPhaseInput(DecodeShapeSpace(limits, 24), AXES, cells, rows)], COST, price)


def padded_cost(plan: tuple[Bucket, ...], cells: dict[Bucket, float]) -> float:
    """Return the compute of all cells, each padded to the first bucket that holds it."""
    return sum(
        weight * COST(DECODE, next(bucket for bucket in plan if holds_shape(bucket, cell)))
        for cell, weight in cells.items()
    )


def size_price(_phase: BucketPhase, bucket: Bucket) -> float:
    return float(bucket.batch_size)


@given(CELLS, st.booleans(), st.data())
def test_cost_is_that_of_the_first_bucket_of_each_cell(
    cells: dict[Bucket, float], rows: bool, data: st.DataObject
) -> None:
    search = search_of(cells, rows=rows)
    search.start(next(search.starts()))
    for _ in range(data.draw(st.integers(0, 8))):
        losses = search.losses()
        if losses and data.draw(st.booleans()):
            loss, position = losses[0]
            before = search.cost
            search.remove(position)
            assert search.cost == pytest.approx(before + loss)
        elif (best := search.best(1.0)) is not None:
            search.add(best)
    assert search.cost == pytest.approx(padded_cost(search.buckets(DECODE), cells))


@given(CELLS)
def test_added_bucket_saves_the_most_compute(cells: dict[Bucket, float]) -> None:
    search = search_of(cells)
    search.start(next(search.starts()))
    plan = search.buckets(DECODE)
    best = search.best(1.0)
    costs = [padded_cost(tuple(sorted({*plan, bucket})), cells) for _, bucket in search.candidates]
    if best is None:
        assert min(costs) == pytest.approx(search.cost)
    else:
        search.add(best)
        assert search.cost == pytest.approx(min(costs))


@settings(max_examples=40)
@given(CELLS, st.booleans(), st.integers(8, 60), st.sampled_from([price_in_graphs, size_price]))
def test_budget_is_held_and_more_budget_never_costs_much_more(
    cells: dict[Bucket, float], rows: bool, budget: int, price: Price
) -> None:
    search = search_of(cells, rows=rows, price=price)
    optimize_within_budget(search, budget)
    assert search.price <= budget
    smaller = search.cost
    optimize_within_budget(search, 2 * budget)
    assert search.cost <= 1.1 * smaller


@given(CELLS, st.integers(1, 20))
def test_each_row_has_a_bucket_with_all_blocks(cells: dict[Bucket, float], budget: int) -> None:
    search = search_of(cells, rows=True)
    optimize_within_budget(search, budget)
    plan = search.buckets(DECODE)
    assert {bucket.batch_size for bucket in plan} == {bucket.batch_size for bucket in plan if bucket.num_blocks == 24}


@given(CELLS)
def test_exchange_never_raises_the_cost(cells: dict[Bucket, float]) -> None:
    search = search_of(cells)
    search.start(next(search.starts()))
    search.grow(4)
    before = search.cost
    search.exchange(4)
    assert search.cost <= before * (1 + 1e-9)
    assert len(search.plan) <= 4


@given(CELLS, CELLS)
def test_changed_weights_change_the_gains(old: dict[Bucket, float], new: dict[Bucket, float]) -> None:
    cells = {**dict.fromkeys(new, 0.0), **old}
    changed = search_of(cells)
    changed.start(next(changed.starts()))
    changed.weigh({(DECODE, cell): weight for cell, weight in new.items()})
    fresh = search_of({**dict.fromkeys(old, 0.0), **new})
    fresh.start(next(fresh.starts()))
    assert changed.cost == pytest.approx(fresh.cost)
    changed.grow(5)
    fresh.grow(5)
    assert changed.cost == pytest.approx(fresh.cost)
