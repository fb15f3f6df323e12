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


def choose_axes(space: ShapeSpace, traffic: Weights, most: Bounds = MOST_VALUES) -> Axes:
    """Choose at most `most` sorted values per dimension. The largest value of each dimension is always included."""
    bounds = zip(space.bounds(), space.steps(), strict=True)
    full = [_multiples(low, step, top) for (low, top), step in bounds]
    live = [at for at, values in enumerate(full) if len(values) > 1]
    for at, count in zip(live, most[len(live)], strict=True):
        full[at] = _choose_values(space.phase, full[at], _axis_weights(traffic, at, full[at]), count)
    full[0] = sorted({*full[0], *space.forced_batch_sizes()})
    return full[0], full[1], full[2]


def round_to_axes(traffic: Weights, axes: Axes) -> dict[Bucket, float]:
    """Round every dimension of the traffic up to the next value of its axis."""
    rounded: dict[Bucket, float] = {}
    for shape, weight in traffic.items():
        cell = Bucket(*(_round_up(axis, value) for axis, value in zip(axes, shape, strict=True)))
        rounded[cell] = rounded.get(cell, 0.0) + weight
    return rounded


def _round_up(axis: Sequence[int], value: int) -> int:
    return axis[min(bisect_left(axis, value), len(axis) - 1)]


def _multiples(least: int, step: int, most: int) -> list[int]:
    """Return `most` and the multiples of `step` below it. If there are more than 512, return those with few bits."""
    multiples: Iterable[int] = range(step, most, step)
    if len(range(step, most, step)) > MOST_MULTIPLES:
        multiples = (step * each for each in _few_bit_numbers(most // step) if step * each < most)
    zero = [0] if least == 0 and most > 0 else []
    return [*zero, *multiples, most]


def _few_bit_numbers(most: int) -> Iterable[int]:
    """Yield the numbers up to `most` with at most 7 significant bits."""
    value = 1
    while value <= most:
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
    return [values[at] for at in Ladder(phase, rungs).cheapest_by_count(count)]
