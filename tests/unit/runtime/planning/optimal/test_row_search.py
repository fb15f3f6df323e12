"""Rows of ladders compared with every partition of a few values into rows, and the limit of the search."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.lookup import Finder
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeSpace, PromptSpace, Row, ShapeSpace
from gaudi_runtime.planning.optimal.axes import Axes
from gaudi_runtime.planning.optimal.row_search import RowSearch, check_rung_count, search_rows
from gaudi_runtime.planning.optimal.selection import Selection, choice_of_rows

Plan = tuple[Bucket, ...]


def limits(length: int, tokens: int, seqs: int = 1, block: int = 2) -> Limits:
    return Limits(
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_prefill_seqs=seqs,
        max_num_batched_tokens=tokens,
        block_size=block,
        contiguous_paged_attention=False,
    )


SPACES: list[tuple[ShapeSpace, Axes]] = [
    (PromptSpace(limits(8, 8), with_context=False), ([1], [2, 4, 6, 8], [0])),
    (PromptSpace(limits(4, 8, seqs=3), with_context=False), ([1, 2, 3], [2, 4], [0])),
    (PromptSpace(limits(6, 6), with_context=True), ([1], [2, 4, 6], [0, 1, 3])),
    (PromptSpace(limits(4, 8, seqs=2), with_context=True), ([1, 2], [2, 4], [0, 1, 2])),
    (DecodeSpace(limits(4, 8, seqs=3), kv_blocks=6), ([1, 2, 3], [1], [1, 2, 4, 6])),
]


def cost(bucket: Bucket) -> float:
    return bucket.batch_size * (bucket.query_len + 2.0 * bucket.num_blocks)


def price(bucket: Bucket) -> float:
    return 1.0 + bucket.query_len % 3


def choices_with_last(values: Sequence[int]) -> Iterator[list[int]]:
    """Yield every choice of values that includes the last value."""
    *others, last = values
    for count in range(len(values)):
        yield from ([*chosen, last] for chosen in combinations(others, count))


def partitions(low: int, values: Sequence[int]) -> Iterator[list[Row]]:
    """Yield every partition of the values into rows."""
    for tops in choices_with_last(values):
        yield [Row(before, top) for before, top in zip([low, *(top + 1 for top in tops)], tops, strict=False)]


def every_plan(space: ShapeSpace, axes: Axes, outer: tuple[Row, ...] = ()) -> Iterator[Plan]:
    """Yield every plan that consists of rows of ladders."""
    span = space.next_row(outer)
    if span is None:
        return
    values = [*(value for value in axes[len(outer)] if span.low <= value < span.top), span.top]
    if len(outer) == (2 if len(axes[2]) > 1 else 1):
        only = axes[2] if len(outer) == 1 else []
        for tops in choices_with_last(values):
            yield tuple(Bucket._make((*(row.top for row in outer), each, *only)) for each in tops)
        return
    for cut in partitions(span.low, values):
        for plans in product(*(list(every_plan(space, axes, (*outer, row))) for row in cut)):
            yield tuple(bucket for plan in plans for bucket in plan)


def cost_of(plan: Plan, cells: Mapping[Bucket, float]) -> float:
    finder = Finder(plan)
    found = [(finder.find_position(*cell), weight) for cell, weight in cells.items()]
    return sum(weight * cost(plan[at]) for at, weight in found if at is not None)


def buckets_of(selection: Selection) -> Plan:
    return tuple(bucket for kept in selection.ladders for bucket in kept.buckets())


@pytest.mark.parametrize(("space", "axes"), SPACES)
@settings(max_examples=15)
@given(data=st.data(), rate=st.integers(0, 40))
def test_search_returns_the_cost_of_the_best_partition(
    space: ShapeSpace, axes: Axes, data: st.DataObject, rate: int
) -> None:
    shapes = [shape for shape in map(Bucket._make, product(*axes)) if space.admits(shape)]
    cells = data.draw(st.dictionaries(st.sampled_from(shapes), st.integers(1, 9).map(float), min_size=1))
    found = RowSearch(space, axes, cells, cost, price).find_choice()(rate)
    plan = buckets_of(found)
    assert list(plan) == sorted(plan)
    assert found.cost == pytest.approx(cost_of(plan, cells))
    assert found.price == sum(map(price, plan))
    best = min(cost_of(each, cells) + rate * sum(map(price, each)) for each in every_plan(space, axes))
    assert found.total_cost(rate) == pytest.approx(best)


def test_query_above_a_row_costs_its_end_without_context() -> None:
    """Three sequences have queries of at most 2 tokens, and the next value of the axis is 4."""
    space = PromptSpace(limits(8, 8, seqs=3), with_context=False)
    axes: Axes = ([1, 2, 3], [4, 8], [0])
    found = RowSearch(space, axes, {Bucket(3, 4, 0): 5.0}, cost, price).find_choice()(0.0)
    assert found.cost == 5 * 3 * 2


def test_query_above_a_row_costs_its_end_with_context() -> None:
    """Three sequences have queries of at most 2 tokens, and the values of the axis are 4 and 8."""
    space = PromptSpace(limits(8, 8, seqs=3), with_context=True)
    axes: Axes = ([1, 2, 3], [4, 8], [0, 4])
    found = RowSearch(space, axes, {Bucket(3, 8, 0): 5.0}, cost, price).find_choice()(0.0)
    assert found.cost == 5 * 3 * 2


def chosen(context: float, rate: float) -> Selection:
    space = PromptSpace(limits(8, 8, seqs=2), with_context=True)
    traffic = {Bucket(1, 2, 0): 8.0, Bucket(1, 3, 1): context, Bucket(2, 3, 0): 4.0, Bucket(2, 1, 3): context}
    return search_rows(space, traffic, cost, price)(rate)


def test_rare_context_uses_the_largest_buckets() -> None:
    """Requests with context are rare, so they use the largest buckets. Requests without context have their own rows."""
    found = chosen(context=0.01, rate=1.0)
    assert set(buckets_of(found)) == {
        Bucket(1, 2, 0),
        Bucket(1, 8, 0),
        Bucket(2, 4, 0),
        Bucket(1, 8, 4),
        Bucket(2, 4, 4),
    }
    assert [kept.cost for kept in found.ladders[-2:]] == pytest.approx([0.01 * (8 + 8), 0.01 * 2 * (4 + 8)])
    assert found.cost == pytest.approx(sum(kept.cost for kept in found.ladders))
    assert found.price == sum(map(price, buckets_of(found)))


def test_frequent_context_has_buckets_with_fewer_blocks() -> None:
    assert {1, 2, 3} & {bucket.num_blocks for bucket in buckets_of(chosen(context=90.0, rate=1.0))}


def test_row_is_not_divided_without_savings() -> None:
    """If costs are equal, the row that begins first is used."""
    whole, half = Selection(cost=1.0, price=2.0), Selection(cost=1.0, price=0.5)
    found = choice_of_rows(2, {(0, 1): lambda _: half, (0, 2): lambda _: whole, (1, 2): lambda _: half})(1.0)
    assert (found.cost, found.price) == (1.0, 2.0)


WIDE = ([1], list(range(1, 25)), list(range(1000)))


def test_search_among_300000_rungs_is_accepted() -> None:
    """24 values give 24 * 25 / 2 = 300 rows, and each row has 1000 rungs."""
    check_rung_count(PromptSpace(limits(24, 24, block=1), with_context=True), WIDE)


@pytest.mark.parametrize(
    ("space", "axes", "rungs"),
    [
        (PromptSpace(limits(24, 24, block=1), with_context=True), (*WIDE[:2], list(range(1001))), 300 * 1001),
        (
            PromptSpace(limits(1000, 1000, seqs=2, block=1), with_context=True),
            ([1, 2], list(range(1, 1001)), [0, 1]),
            (1000 * 1001 // 2 + 500 * 501 // 2) * 2,
        ),
        (
            PromptSpace(limits(100_000, 300_000, seqs=3, block=1), with_context=False),
            ([1, 2, 3], range(1, 100_001), [0]),
            6 * 100_000,
        ),
        (
            PromptSpace(limits(200_000, 200_000, seqs=2, block=1), with_context=False),
            ([1, 2], range(1, 200_001), [0]),
            2 * 200_000,
        ),
    ],
)
def test_search_among_more_rungs_is_refused_with_their_number(space: ShapeSpace, axes: Axes, rungs: int) -> None:
    with pytest.raises(PlanImpossible) as refused:
        check_rung_count(space, axes)
    assert str(refused.value) == (
        f"bucketing.strategy: with these limits, strategy Optimal has {rungs} candidate prompt buckets for "
        f"{len(axes[0])} batch sizes, but at most 300000 are allowed. Lower engine.maxNumPrefillSeqs or "
        "engine.maxNumBatchedTokens, or choose another strategy"
    )
