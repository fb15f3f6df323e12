"""Smoothing of traffic, because future traffic differs from past traffic.

A share of the learned weight is spread over shapes of similar size (docs/internals/optimal.md, Smoothing, which has
figures of the gain and the cost). So a plan does not depend on a temporary peak, and also has rungs for sizes that were
not observed yet.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import erf, log, sqrt

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.planning.optimal.admissible_shapes import ShapeSpace
from gaudi_runtime.planning.optimal.axes import Axes, cells_of_axes, choose_axes
from gaudi_runtime.traffic.histogram import Weights

SPREAD_SHARE = 0.2
"""The share of the weight that is spread. Most weight stays, because lengths repeat, as those of system prompts do."""

# The standard deviation of the natural logarithm of a size. Two thirds of the weight lie between 0.74 and 1.35 times
# the size.
SPREAD_WIDTH = 0.3

NEGLIGIBLE = 1e-4


def smooth_traffic(traffic: Mapping[Bucket, float], axes: Axes) -> dict[Bucket, float]:
    """Return traffic on the values of `axes`, with a share of its weight spread. The total weight stays the same."""
    weights = _spread({cell: weight * SPREAD_SHARE for cell, weight in traffic.items()}, axes)
    for cell, weight in traffic.items():
        weights[cell] = weights.get(cell, 0.0) + weight * (1 - SPREAD_SHARE)
    return weights


def smooth_to_similar_shapes(space: ShapeSpace, traffic: Weights) -> dict[Bucket, float]:
    """Return `traffic` with all of its weight spread over admissible shapes of similar sizes."""
    axes = choose_axes(space, traffic)
    rounded, kept = cells_of_axes(space, traffic, axes)
    return {cell: weight for cell, weight in _spread(rounded, axes).items() if space.admits(cell)} | kept


def _spread(traffic: dict[Bucket, float], axes: Axes) -> dict[Bucket, float]:
    for dimension, axis in enumerate(axes):
        traffic = _spread_along(traffic, dimension, tuple(axis))
    return traffic


def _spread_along(traffic: Mapping[Bucket, float], dimension: int, axis: tuple[int, ...]) -> dict[Bucket, float]:
    weights: dict[Bucket, float] = {}
    # The kernels are cached for this call only, to save memory: an axis has one kernel for each value, and each kernel
    # has one share for each value.
    kernels = {centre: _kernel(axis, centre) for centre in {cell[dimension] for cell in traffic}}
    for cell, weight in traffic.items():
        for value, share in kernels[cell[dimension]]:
            target = Bucket._make((*cell[:dimension], value, *cell[dimension + 1 :]))
            weights[target] = weights.get(target, 0.0) + weight * share
    return weights


def _kernel(axis: tuple[int, ...], centre: int) -> Sequence[tuple[int, float]]:
    """Return the shares of a log-normal distribution around the middle of the cell that ends at `centre`."""
    # Shapes without context are a separate kind of traffic, so the value 0 neither gives weight to other values nor
    # receives weight.
    if centre == 0:
        return ((0, 1.0),)
    sizes = [value for value in axis if value > 0]
    index = sizes.index(centre)
    log_middle = log(((sizes[index - 1] if index else 0) + centre) / 2)
    shares_below = [0.5 * (1 + erf((log(value) - log_middle) / SPREAD_WIDTH / sqrt(2))) for value in sizes[:-1]]
    bounds = [0.0, *shares_below, 1.0]
    shares = [high - low for low, high in pairwise(bounds)]
    significant_shares = [(value, share) for value, share in zip(sizes, shares, strict=True) if share > NEGLIGIBLE]
    total_share = sum(share for _, share in significant_shares)
    return tuple((value, share / total_share) for value, share in significant_shares)
