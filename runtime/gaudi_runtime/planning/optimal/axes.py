"""Axes: the values of each dimension that may become rungs of the optimal search.

The number of values is limited, so that the search takes less than a second. If only one dimension varies, its axis has
all multiples of its step, with larger distances from 512 on. If several dimensions vary, each axis has the values that
would be chosen for the traffic of this dimension alone.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.admissible_shapes import ShapeSpace
from gaudi_runtime.planning.optimal.ladder import Ladder, Rung
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
    varying_dimensions = [dimension for dimension, values in enumerate(axes) if len(values) > 1]
    for dimension, max_values in zip(varying_dimensions, value_limits[len(varying_dimensions)], strict=True):
        weights = _axis_weights(traffic, dimension, axes[dimension])
        axes[dimension] = _choose_values(space.phase, axes[dimension], weights, max_values)
    axes[0] = sorted({*axes[0], *space.forced_batch_sizes()})
    return axes[0], axes[1], axes[2]


def least_axis_sizes(space: ShapeSpace) -> tuple[int, int, int]:
    """Return the fewest values that choose_axes() can choose for each dimension, whatever the traffic is."""
    bounds = zip(space.bounds(), space.steps(), strict=True)
    sizes = [len(_multiples(low, step, top)) for (low, top), step in bounds]
    varying_dimensions = [dimension for dimension, size in enumerate(sizes) if size > 1]
    for dimension, max_values in zip(varying_dimensions, MOST_VALUES[len(varying_dimensions)], strict=True):
        sizes[dimension] = min(sizes[dimension], max_values)
    return max(sizes[0], len(space.forced_batch_sizes())), sizes[1], sizes[2]


def round_to_axes(traffic: Weights, axes: Axes) -> dict[Bucket, float]:
    """Round every dimension of the traffic up to the next value of its axis."""
    weights: dict[Bucket, float] = {}
    for shape, weight in traffic.items():
        cell = Bucket(*(_round_up(axis, value) for axis, value in zip(axes, shape, strict=True)))
        weights[cell] = weights.get(cell, 0.0) + weight
    return weights


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


def _choose_values(phase: BucketPhase, values: list[int], weights: Sequence[float], count: int) -> list[int]:
    """Return the `count` values that cause the least padding in this dimension."""
    if len(values) <= count:
        return values
    rungs = [Rung(Bucket(1, 1, value), weight, value, 1) for value, weight in zip(values, weights, strict=True)]
    return [values[position] for position in Ladder(phase, rungs).cheapest_by_count(count)]
