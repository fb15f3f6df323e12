"""The values of each dimension that may become rungs.

The search must stay below a second, so a dimension offers a bounded number of values: where one dimension has a choice,
all multiples of its step, coarser from 512 of them on; where several have, those that the traffic of the dimension
taken alone would choose.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.admissible_shapes import Space
from gaudi_runtime.planning.optimal.ladder import Ladder, Rung
from gaudi_runtime.traffic.histogram import Weights

MOST_MULTIPLES = 512
Bounds = Mapping[int, tuple[int, ...]]
MOST_VALUES: Bounds = {0: (), 1: (512,), 2: (16, 96), 3: (8, 12, 20)}
"""Most values of the dimensions that have a choice, outermost first, by the number of such dimensions."""

Axes = tuple[list[int], list[int], list[int]]


def choose_axes(space: Space, traffic: Weights, most: Bounds = MOST_VALUES) -> Axes:
    """At most `most` sorted values per dimension; the largest one of each ends its list."""
    bounds = zip(space.bounds(), space.steps(), strict=True)
    full = [_multiples(low, step, top) for (low, top), step in bounds]
    live = [at for at, values in enumerate(full) if len(values) > 1]
    for at, count in zip(live, most[len(live)], strict=True):
        full[at] = _thin(space.phase, full[at], _marginal(traffic, at, full[at]), count)
    full[0] = sorted({*full[0], *space.forced()})
    return full[0], full[1], full[2]


def to_axes(traffic: Weights, axes: Axes) -> dict[Bucket, float]:
    """The same traffic with every dimension rounded up to the next value of its axis."""
    rounded: dict[Bucket, float] = {}
    for shape, weight in traffic.items():
        cell = Bucket(*(_next(axis, value) for axis, value in zip(axes, shape, strict=True)))
        rounded[cell] = rounded.get(cell, 0.0) + weight
    return rounded


def _next(axis: Sequence[int], value: int) -> int:
    return axis[min(bisect_left(axis, value), len(axis) - 1)]


def _multiples(least: int, step: int, most: int) -> list[int]:
    """`most` and every multiple of `step` below it; of more than 512 only those with few significant bits."""
    multiples: Iterable[int] = range(step, most, step)
    if len(range(step, most, step)) > MOST_MULTIPLES:
        multiples = (step * each for each in _few_bits(most // step) if step * each < most)
    zero = [0] if least == 0 and most > 0 else []
    return [*zero, *multiples, most]


def _few_bits(most: int) -> Iterable[int]:
    """Numbers up to `most` that are a multiple of a power of two at most 1/64 of them."""
    value = 1
    while value <= most:
        yield value
        value += 1 << max(0, value.bit_length() - 7)


def _marginal(traffic: Weights, dimension: int, axis: Sequence[int]) -> list[float]:
    weights = [0.0] * len(axis)
    for shape, weight in traffic.items():
        weights[min(bisect_left(axis, shape[dimension]), len(axis) - 1)] += weight
    return weights


def _thin(phase: BucketPhase, values: list[int], weights: Sequence[float], count: int) -> list[int]:
    """The `count` values that this dimension alone would be padded least with."""
    if len(values) <= count:
        return values
    rungs = [Rung(Bucket(1, 1, value), weight, value, 1) for value, weight in zip(values, weights, strict=True)]
    return [values[at] for at in Ladder(phase, rungs).exactly(count)]
