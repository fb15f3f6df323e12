"""Smoothing of observed traffic: a part of the weight of each shape is spread to its neighbours."""

from itertools import chain, pairwise
from math import log
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.planning.optimal.axes import Axes
from gaudi_runtime.planning.optimal.smoothing import NEGLIGIBLE, SPREAD_SHARE, SPREAD_WIDTH, smooth_traffic

AXES: Axes = ([1, 2, 4], [128, 256, 384, 512, 1024], [0, 1, 8])
CELLS = st.dictionaries(
    st.builds(Bucket, *(st.sampled_from(axis) for axis in AXES)), st.floats(0.5, 100), min_size=1, max_size=8
)


@given(CELLS)
def test_smoothing_keeps_the_weight(cells: dict[Bucket, float]) -> None:
    assert sum(smooth_traffic(cells, AXES).values()) == pytest.approx(sum(cells.values()))


@given(CELLS)
def test_most_of_the_weight_stays_at_the_observed_shape(cells: dict[Bucket, float]) -> None:
    smoothed = smooth_traffic(cells, AXES)
    assert all(smoothed[cell] >= (1 - SPREAD_SHARE) * weight for cell, weight in cells.items())


def test_close_shapes_get_more_weight_than_distant_shapes() -> None:
    smoothed = smooth_traffic({Bucket(1, 384, 0): 1.0}, AXES)
    assert smoothed[Bucket(1, 256, 0)] > smoothed.get(Bucket(1, 1024, 0), 0.0)


def test_smoothing_adds_no_context_to_prompts_without_it() -> None:
    assert all(cell.num_blocks == 0 for cell in smooth_traffic({Bucket(1, 384, 0): 1.0}, AXES))


def test_smoothing_keeps_context_of_prompts_with_context() -> None:
    assert all(cell.num_blocks > 0 for cell in smooth_traffic({Bucket(1, 384, 1): 1.0}, AXES))


def shares(axis: list[int], centre: int) -> dict[int, float]:
    """Return the log-normal share of each value around the middle of the cell that ends at `centre`.

    Negligible shares are left out.
    """
    ends = [0, *axis]
    middle = (ends[axis.index(centre)] + centre) / 2
    spread = NormalDist(log(middle), SPREAD_WIDTH)
    below = [0.0, *(spread.cdf(log(value)) for value in axis[:-1]), 1.0]
    kept = {value: high - low for value, (low, high) in zip(axis, pairwise(below), strict=True)}
    kept = {value: share for value, share in kept.items() if share > NEGLIGIBLE}
    return {value: share / sum(kept.values()) for value, share in kept.items()}


@pytest.mark.parametrize("centre", AXES[1])
def test_share_of_weight_is_spread_log_normally(centre: int) -> None:
    expected = {Bucket(1, value, 0): SPREAD_SHARE * share for value, share in shares(AXES[1], centre).items()}
    expected[Bucket(1, centre, 0)] += 1 - SPREAD_SHARE
    assert smooth_traffic({Bucket(1, centre, 0): 1.0}, ([1], AXES[1], [0])) == pytest.approx(expected)


def test_dimensions_are_spread_independently() -> None:
    axes: Axes = ([1, 2, 4], [256, 384, 512], [0, 6, 8])
    smoothed = smooth_traffic({Bucket(2, 384, 8): 1.0}, axes)
    sizes, queries, blocks = shares(axes[0], 2), shares(axes[1], 384), shares(axes[2][1:], 8)
    assert smoothed[Bucket(1, 256, 6)] == pytest.approx(SPREAD_SHARE * sizes[1] * queries[256] * blocks[6])


def test_value_next_to_a_close_neighbour_keeps_its_fixed_share() -> None:
    """The value's own share of the distributed weight is negligible."""
    smoothed = smooth_traffic({Bucket(1, 100_001, 0): 3.0}, ([1], [100_000, 100_001, 200_000], [0]))
    assert smoothed[Bucket(1, 100_001, 0)] == pytest.approx(3 * (1 - SPREAD_SHARE))
    assert sum(smoothed.values()) == pytest.approx(3)


FEW: Axes = ([1, 2, 4], [128, 256, 512], [0, 1, 8])


@given(st.lists(st.builds(Bucket, *map(st.sampled_from, FEW)), min_size=2, max_size=2, unique=True))
@settings(max_examples=20)
def test_smoothing_of_two_shapes_is_the_sum_of_both_results(cells: list[Bucket]) -> None:
    one, other = (smooth_traffic({cell: weight}, FEW) for cell, weight in zip(cells, (3.0, 5.0), strict=True))
    both = smooth_traffic(dict(zip(cells, (3.0, 5.0), strict=True)), FEW)
    assert both == pytest.approx({cell: one.get(cell, 0) + other.get(cell, 0) for cell in chain(one, other)})
