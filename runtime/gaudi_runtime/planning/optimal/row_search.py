"""The search over rows of ladders in several dimensions (docs/internals/optimal.md, Rows and ladders).

`find` returns the bucket with the smallest batch size, then the smallest query, then the fewest blocks. So a plan can
cut its outer dimension into rows. Each row has its own ladder, which ends at the largest request of the row. The
dimensions of a request then determine its row and its rung. Rows and rungs are chosen together: each graph costs
`rate`, and the cheapest rows are a shortest path over all ways to cut.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.admissible_shapes import PromptSpace, Row, ShapeSpace
from gaudi_runtime.planning.optimal.axes import Axes, choose_axes, round_to_axes
from gaudi_runtime.planning.optimal.ladder import Ladder, Rung
from gaudi_runtime.planning.optimal.selection import (
    Choice,
    KeptRungs,
    Selection,
    cheapest_of_choices,
    choice_of_rows,
    choice_of_rungs,
)
from gaudi_runtime.planning.optimal.smoothing import smooth
from gaudi_runtime.traffic.histogram import Weights

Worth = Callable[[Bucket], float]

# The most rungs of all ladders together. This many rungs take up to half a minute and a quarter of a GiB.
MAX_RUNGS = 300_000


def check_rung_count(space: ShapeSpace, axes: Axes) -> None:
    """Raise PlanImpossible if a row search has too many rungs, which would take too much time and memory."""
    sizes, queries, blocks = axes
    rungs = 0
    for row in _batch_rows(space, sizes):
        longest = space.next_row((row,))
        inside = bisect_left(queries, longest.top) + 1 if longest else 0
        rungs += inside * (inside + 1) // 2 * len(blocks) if len(blocks) > 1 else inside
    rungs = max(rungs, len(sizes) * len(queries) * len(blocks))
    if rungs > MAX_RUNGS:
        raise PlanImpossible(
            f"with these limits, strategy Optimal has {rungs} candidate {space.phase} buckets for {len(sizes)} batch "
            f"sizes, but at most {MAX_RUNGS} are allowed. Lower engine.maxNumPrefillSeqs or "
            "engine.maxNumBatchedTokens, or choose another strategy",
            "bucketing.strategy",
        )


def _batch_rows(space: ShapeSpace, sizes: Sequence[int]) -> Iterator[Row]:
    """Yield the rows that batch sizes can be cut into."""
    lows = [1, *(size + 1 for size in sizes[:-1])]
    for at, low in enumerate(lows):
        rows = (Row(low, top) for top in sizes[at:])
        # If a row is too long, every row that ends later is too long as well.
        yield from takewhile(lambda row: space.next_row((row,)) is not None, rows)


class RowSearch:
    """The search over all ways to cut an admissible space into rows of ladders.

    `cells` contains traffic on the values of `axes`. `cost` is the cost of one batch, and `price` is the price of
    preparing a bucket.
    """

    def __init__(self, space: ShapeSpace, axes: Axes, cells: Mapping[Bucket, float], cost: Worth, price: Worth) -> None:
        self._space = space
        self._axes = axes
        self._cost = cost
        self._price = price
        self._sums = _prefix_sums(axes, cells)
        # If all shapes have the same blocks, the queries form the ladder.
        self._ladder_dimension = 2 if len(axes[2]) > 1 else 1

    def find_choice(self) -> Choice:
        """Return the choice: rows of batch sizes, each with rows of queries, each with a ladder of blocks."""
        found = self._choice_within((), ())
        if found is None:
            raise AssertionError("one row for each batch size is always possible")
        return found

    def _choice_within(self, outer: tuple[Row, ...], places: tuple[Row, ...]) -> Choice | None:
        """Return the choice within `outer` rows at the axis positions `places`; None if these rows are impossible."""
        span = self._space.next_row(outer)
        if span is None:
            return None
        if len(outer) == self._ladder_dimension:
            return choice_of_rungs(self._build_ladder(outer, places, span))
        return self._cut_into_rows(outer, places, span)

    def _cut_into_rows(self, outer: tuple[Row, ...], places: tuple[Row, ...], span: Row) -> Choice:
        axis = self._axes[len(outer)]
        values = [value for value in axis if value < span.top] + [span.top]
        rows: dict[tuple[int, int], Choice] = {}
        for start in range(len(values)):
            for end in range(start + 1, len(values) + 1):
                row = Row(values[start - 1] + 1 if start else span.low, values[end - 1])
                # The last row of a span also takes shapes that were rounded up to a value above the end of the span.
                place = Row(start, end if end < len(values) else len(axis))
                inner = self._choice_within((*outer, row), (*places, place))
                if inner is None:
                    # If this row is impossible, every longer row is impossible as well.
                    break
                rows[start, end] = inner
        return choice_of_rows(len(values), rows)

    def _build_ladder(self, outer: tuple[Row, ...], places: tuple[Row, ...], span: Row) -> Ladder:
        axis = self._axes[len(outer)]
        values = [value for value in axis if span.low <= value < span.top] + [span.top]
        weights = [0.0] * len(values)
        for value, weight in zip(axis, self._ladder_weights(places), strict=True):
            weights[min(bisect_left(values, value), len(values) - 1)] += weight
        tops = [row.top for row in outer]
        only = [each[0] for each in self._axes[len(outer) + 1 :]]
        buckets = [Bucket._make((*tops, value, *only)) for value in values]
        rungs = zip(buckets, weights, strict=True)
        return Ladder(
            self._space.phase, [Rung(each, weight, self._cost(each), self._price(each)) for each, weight in rungs]
        )

    def _ladder_weights(self, places: tuple[Row, ...]) -> Sequence[float]:
        """Return the weight of the cells within `places` of the outer axes, for each value of the ladder's axis."""
        if len(places) == 2:
            return self._block_weights(*places)
        return [sum(self._block_weights(places[0], Row(at, at + 1))) for at in range(len(self._axes[1]))]

    def _block_weights(self, batches: Row, queries: Row) -> Sequence[float]:
        """Return the weight of the cells within both ranges of positions, for each number of blocks."""
        sums = self._sums
        corners = (
            sums[batches.top][queries.top],
            sums[batches.low][queries.top],
            sums[batches.top][queries.low],
            sums[batches.low][queries.low],
        )
        # A rounding error in large sums could otherwise make a weight negative.
        return [max(0.0, a - b - c + d) for a, b, c, d in zip(*corners, strict=True)]


def _prefix_sums(axes: Axes, cells: Mapping[Bucket, float]) -> list[list[Sequence[float]]]:
    """Return sums[i][j]: the weight of the first i batch sizes and j queries, for each value of the last axis."""
    batches, queries, blocks = (({value: at for at, value in enumerate(axis)}) for axis in axes)
    grid = [[[0.0] * len(blocks) for _ in queries] for _ in batches]
    for (batch, query, block), weight in cells.items():
        grid[batches[batch]][queries[query]][blocks[block]] += weight
    sums: list[list[Sequence[float]]] = [[[0.0] * len(blocks)] * (len(queries) + 1)]
    for row in grid:
        line: list[Sequence[float]] = [[0.0] * len(blocks)]
        running = [0.0] * len(blocks)
        for above, cell in zip(sums[-1][1:], row, strict=True):
            running = [total + weight for total, weight in zip(running, cell, strict=True)]
            line.append([total + weight for total, weight in zip(above, running, strict=True)])
        sums.append(line)
    return sums


def search_rows(space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    """Search the rows of buckets of one phase, and return the choice. All shapes of `traffic` must be admissible."""
    everything = _search_space(space, traffic, cost, price)
    if not isinstance(space, PromptSpace) or not space.with_context:
        return everything
    return cheapest_of_choices(everything, _choice_with_corners(space, traffic, cost, price))


def _search_space(space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    axes = choose_axes(space, traffic)
    check_rung_count(space, axes)
    return RowSearch(space, axes, smooth(round_to_axes(traffic, axes), axes), cost, price).find_choice()


def _choice_with_corners(space: PromptSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    """Return rows for prompts without context. Prompts with context share the few buckets that hold everything."""
    # This choice is best if context is rare: no row has an additional bucket that only rare requests need.
    plain = {shape: weight for shape, weight in traffic.items() if not shape.num_blocks}
    with_context = {shape: weight for shape, weight in traffic.items() if shape.num_blocks}
    rows = _search_space(replace(space, with_context=False), plain, cost, price)
    always = _select_corners(space, with_context, cost, price)
    return lambda rate: rows(rate) + always


def _select_corners(space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth) -> Selection:
    corners = space.covering_buckets()
    sizes = [corner.batch_size for corner in corners]
    weights = [0.0] * len(corners)
    for shape, weight in traffic.items():
        weights[bisect_left(sizes, shape.batch_size)] += weight
    rungs = (Rung(each, weight, cost(each), price(each)) for each, weight in zip(corners, weights, strict=True))
    kept = [KeptRungs(Ladder(space.phase, [rung]), (0,)) for rung in rungs]
    return Selection(tuple(kept), sum(each.cost for each in kept), sum(each.price for each in kept))
