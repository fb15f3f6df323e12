"""Axes: the values of each dimension that candidate buckets may have.

The number of values is limited, so that the search takes seconds. If only one dimension varies, its axis has all
multiples of its step, with larger distances from 512 on. If several dimensions vary, each axis has values that cause
little padding for the traffic of this dimension alone.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappush, heapreplace
from itertools import accumulate

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.planning.optimal.admissible_shapes import ShapeSpace, holds_shape
from gaudi_runtime.traffic.histogram import Weights

MOST_MULTIPLES = 512
Bounds = Mapping[int, tuple[int, ...]]
MOST_VALUES: Bounds = {0: (), 1: (512,), 2: (16, 96), 3: (8, 12, 20)}
"""The most values of the varying dimensions, outermost first, by the number of such dimensions."""

Axes = tuple[list[int], list[int], list[int]]


def choose_axes(space: ShapeSpace, traffic: Weights, value_limits: Bounds = MOST_VALUES) -> Axes:
    """Choose at most `value_limits` sorted values per dimension, always with the largest value of the dimension."""
    bounds = zip(space.bounds(), space.steps(), strict=True)
    axes = [_multiples(low, step, top) for (low, top), step in bounds]
    for dimension, values in enumerate(axes):
        # A dimension in which the traffic does not vary needs no more values than this one and the largest.
        used = {min(bisect_left(values, shape[dimension]), len(values) - 1) for shape in traffic}
        if len(used) == 1:
            axes[dimension] = sorted({values[used.pop()], values[-1]})
    varying_dimensions = [dimension for dimension, values in enumerate(axes) if len(values) > 2]
    for dimension, max_values in zip(varying_dimensions, value_limits[len(varying_dimensions)], strict=True):
        weights = _axis_weights(traffic, dimension, axes[dimension])
        axes[dimension] = list(choose_axis_values(axes[dimension], weights, max_values))
    return axes[0], axes[1], axes[2]


def round_to_axes(traffic: Weights, axes: Axes) -> dict[Bucket, float]:
    """Round every dimension of the traffic up to the next value of its axis."""
    weights: dict[Bucket, float] = {}
    for shape, weight in traffic.items():
        cell = Bucket(*(_round_up(axis, value) for axis, value in zip(axes, shape, strict=True)))
        weights[cell] = weights.get(cell, 0.0) + weight
    return weights


def cells_of_axes(space: ShapeSpace, traffic: Weights, axes: Axes) -> tuple[dict[Bucket, float], dict[Bucket, float]]:
    """Return the traffic rounded up to the axes, and the traffic that no bucket would hold if it were rounded up."""
    needed = space.covering_buckets()
    rounded, kept = dict[Bucket, float](), dict[Bucket, float]()
    for shape, weight in traffic.items():
        (cell,) = round_to_axes({shape: weight}, axes)
        if any(holds_shape(bucket, cell) for bucket in needed):
            rounded[cell] = rounded.get(cell, 0.0) + weight
        else:
            kept[shape] = weight
    return rounded, kept


def _round_up(axis: Sequence[int], value: int) -> int:
    return axis[min(bisect_left(axis, value), len(axis) - 1)]


def _multiples(low: int, step: int, top: int) -> list[int]:
    """Return `top` and the multiples of `step` below it. If there are more than 512, return those with few bits."""
    multiples: Iterable[int] = range(step, top, step)
    if len(range(step, top, step)) > MOST_MULTIPLES:
        multiples = (step * number for number in _few_bit_numbers(top // step) if step * number < top)
    zero = [0] if low == 0 and top > 0 else []
    return [*zero, *multiples, top]


def _few_bit_numbers(maximum: int) -> Iterable[int]:
    """Yield the numbers up to `maximum` with at most 7 significant bits."""
    value = 1
    while value <= maximum:
        yield value
        value += 1 << max(0, value.bit_length() - 7)


def _axis_weights(traffic: Weights, dimension: int, axis: Sequence[int]) -> list[float]:
    weights = [0.0] * len(axis)
    for shape, weight in traffic.items():
        weights[min(bisect_left(axis, shape[dimension]), len(axis) - 1)] += weight
    return weights


def choose_axis_values(values: Sequence[int], weights: Sequence[float], count: int) -> Sequence[int]:
    """Return at most `count` values that cause little padding, always with the largest value.

    The interval between two chosen values whose split saves the most padding is split first.
    """
    if len(values) <= count:
        return values
    sums = [0.0, *accumulate(weights)]

    def best_split(first: int, end: int) -> tuple[float, int, int, int]:
        """Return the best split of the values from `first` to `end` - 1, all padded to the last of them."""
        savings = (
            ((sums[first] - sums[split]) * (values[end - 1] - values[split - 1]), split, first, end)
            for split in range(first + 1, end)
        )
        return min(savings, default=(0.0, 0, first, end))

    splits, chosen = [best_split(0, len(values))], {values[-1]}
    while len(chosen) < count and splits[0][0] < 0:
        _, split, _, end = heapreplace(splits, best_split(splits[0][2], splits[0][1]))
        chosen.add(values[split - 1])
        heappush(splits, best_split(split, end))
    return sorted(chosen)
