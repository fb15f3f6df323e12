"""The search over rows of ladders in several dimensions (docs/internals/planning.md, Rows and ladders).

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
from gaudi_runtime.planning.optimal.axes import Axes, choose_axes, least_axis_sizes, round_to_axes
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
        query_row = space.next_row((row,))
        query_count = bisect_left(queries, query_row.top) + 1 if query_row else 0
        rungs += query_count * (query_count + 1) // 2 * len(blocks) if len(blocks) > 1 else query_count
    _refuse_too_many_rungs(space, max(rungs, len(sizes) * len(queries) * len(blocks)), len(sizes))


def check_least_rung_count(space: ShapeSpace) -> None:
    """Raise PlanImpossible if a row search has too many rungs whatever the traffic is, without choosing axes."""
    sizes, queries, blocks = least_axis_sizes(space)
    _refuse_too_many_rungs(space, sizes * queries * blocks, sizes)


def _refuse_too_many_rungs(space: ShapeSpace, rungs: int, batch_sizes: int) -> None:
    if rungs > MAX_RUNGS:
        raise PlanImpossible(
            f"with these limits, strategy Optimal has {rungs} candidate {space.phase} buckets for {batch_sizes} batch "
            f"sizes, but at most {MAX_RUNGS} are allowed. Lower engine.maxNumPrefillSeqs or "
            "engine.maxNumBatchedTokens, or choose another strategy",
            "bucketing.strategy",
        )


def _batch_rows(space: ShapeSpace, sizes: Sequence[int]) -> Iterator[Row]:
    """Yield the rows that batch sizes can be cut into."""
    lows = [1, *(size + 1 for size in sizes[:-1])]
    for index, low in enumerate(lows):
        rows = (Row(low, top) for top in sizes[index:])
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
        self._weight_sums = _prefix_sums(axes, cells)
        # If all shapes have the same blocks, the queries form the ladder.
        self._ladder_dimension = 2 if len(axes[2]) > 1 else 1

    def find_choice(self) -> Choice:
        """Return the choice: rows of batch sizes, each with rows of queries, each with a ladder of blocks."""
        choice = self._choice_within((), ())
        if choice is None:
            raise AssertionError("one row for each batch size is always possible")
        return choice

    def _choice_within(self, outer: tuple[Row, ...], ranges: tuple[Row, ...]) -> Choice | None:
        """Return the choice within `outer` rows at the axis positions `ranges`; None if these rows are impossible."""
        span = self._space.next_row(outer)
        if span is None:
            return None
        if len(outer) == self._ladder_dimension:
            return choice_of_rungs(self._build_ladder(outer, ranges, span))
        return self._cut_into_rows(outer, ranges, span)

    def _cut_into_rows(self, outer_rows: tuple[Row, ...], ranges: tuple[Row, ...], span: Row) -> Choice:
        axis = self._axes[len(outer_rows)]
        values = [value for value in axis if value < span.top] + [span.top]
        rows: dict[tuple[int, int], Choice] = {}
        for start in range(len(values)):
            for end in range(start + 1, len(values) + 1):
                row = Row(values[start - 1] + 1 if start else span.low, values[end - 1])
                # The last row of a span also takes shapes that were rounded up to a value above the end of the span.
                index_range = Row(start, end if end < len(values) else len(axis))
                choice = self._choice_within((*outer_rows, row), (*ranges, index_range))
                if choice is None:
                    # If this row is impossible, every longer row is impossible as well.
                    break
                rows[start, end] = choice
        return choice_of_rows(len(values), rows)

    def _build_ladder(self, outer_rows: tuple[Row, ...], ranges: tuple[Row, ...], span: Row) -> Ladder:
        axis = self._axes[len(outer_rows)]
        values = [value for value in axis if span.low <= value < span.top] + [span.top]
        weights = [0.0] * len(values)
        for value, weight in zip(axis, self._ladder_weights(ranges), strict=True):
            weights[min(bisect_left(values, value), len(values) - 1)] += weight
        tops = [row.top for row in outer_rows]
        single_values = [later_axis[0] for later_axis in self._axes[len(outer_rows) + 1 :]]
        buckets = [Bucket._make((*tops, value, *single_values)) for value in values]
        rungs = zip(buckets, weights, strict=True)
        return Ladder(
            self._space.phase,
            [Rung(bucket, weight, self._cost(bucket), self._price(bucket)) for bucket, weight in rungs],
        )

    def _ladder_weights(self, ranges: tuple[Row, ...]) -> Sequence[float]:
        """Return the weight of the cells within `ranges` of the outer axes, for each value of the ladder's axis."""
        if len(ranges) == 2:
            return self._block_weights(*ranges)
        return [sum(self._block_weights(ranges[0], Row(index, index + 1))) for index in range(len(self._axes[1]))]

    def _block_weights(self, batch_range: Row, query_range: Row) -> Sequence[float]:
        """Return the weight of the cells within both ranges of positions, for each number of blocks."""
        sums = self._weight_sums
        corners = (
            sums[batch_range.top][query_range.top],
            sums[batch_range.low][query_range.top],
            sums[batch_range.top][query_range.low],
            sums[batch_range.low][query_range.low],
        )
        # A rounding error in large sums could otherwise make a weight negative.
        return [max(0.0, a - b - c + d) for a, b, c, d in zip(*corners, strict=True)]


def _prefix_sums(axes: Axes, cells: Mapping[Bucket, float]) -> list[list[Sequence[float]]]:
    """Return sums[i][j]: the weight of the first i batch sizes and j queries, for each value of the last axis."""
    batch_index, query_index, block_index = (({value: index for index, value in enumerate(axis)}) for axis in axes)
    grid = [[[0.0] * len(block_index) for _ in query_index] for _ in batch_index]
    for (batch, query, block), weight in cells.items():
        grid[batch_index[batch]][query_index[query]][block_index[block]] += weight
    sums: list[list[Sequence[float]]] = [[[0.0] * len(block_index)] * (len(query_index) + 1)]
    for row in grid:
        row_sums: list[Sequence[float]] = [[0.0] * len(block_index)]
        running_sums = [0.0] * len(block_index)
        for sums_above, cell_weights in zip(sums[-1][1:], row, strict=True):
            running_sums = [total + weight for total, weight in zip(running_sums, cell_weights, strict=True)]
            row_sums.append([total + weight for total, weight in zip(sums_above, running_sums, strict=True)])
        sums.append(row_sums)
    return sums


def search_rows(space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    """Search the rows of buckets of one phase, and return the choice. All shapes of `traffic` must be admissible."""
    choice = _search_space(space, traffic, cost, price)
    if not isinstance(space, PromptSpace) or not space.with_context:
        return choice
    return cheapest_of_choices(choice, _choice_with_corners(space, traffic, cost, price))


def _search_space(space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    axes = choose_axes(space, traffic)
    check_rung_count(space, axes)
    return RowSearch(space, axes, smooth(round_to_axes(traffic, axes), axes), cost, price).find_choice()


def _choice_with_corners(space: PromptSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    """Return rows for prompts without context. Prompts with context share the few buckets that hold everything."""
    # This choice is best if context is rare: no row has an additional bucket that only rare requests need.
    without_context = {shape: weight for shape, weight in traffic.items() if not shape.num_blocks}
    with_context = {shape: weight for shape, weight in traffic.items() if shape.num_blocks}
    rows = _search_space(replace(space, with_context=False), without_context, cost, price)
    corners = _select_corners(space, with_context, cost, price)
    return lambda rate: rows(rate) + corners


def _select_corners(space: ShapeSpace, traffic: Weights, cost: Worth, price: Worth) -> Selection:
    corners = space.covering_buckets()
    sizes = [corner.batch_size for corner in corners]
    weights = [0.0] * len(corners)
    for shape, weight in traffic.items():
        weights[bisect_left(sizes, shape.batch_size)] += weight
    rungs = (Rung(corner, weight, cost(corner), price(corner)) for corner, weight in zip(corners, weights, strict=True))
    ladders = [KeptRungs(Ladder(space.phase, [rung]), (0,)) for rung in rungs]
    return Selection(tuple(ladders), sum(ladder.cost for ladder in ladders), sum(ladder.price for ladder in ladders))
