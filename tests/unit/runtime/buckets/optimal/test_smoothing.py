import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.optimal.space import SPREAD_SHARE, Axes, smooth

AXES: Axes = ([1, 2, 4], [128, 256, 384, 512, 1024], [0, 1, 8])
CELLS = st.dictionaries(
    st.builds(Bucket, *(st.sampled_from(axis) for axis in AXES)), st.floats(0.5, 100), min_size=1, max_size=8
)


@given(CELLS)
def test_smoothing_keeps_the_weight(cells: dict[Bucket, float]) -> None:
    assert sum(smooth(cells, AXES).values()) == pytest.approx(sum(cells.values()))


@given(CELLS)
def test_most_of_the_weight_stays_where_it_was_seen(cells: dict[Bucket, float]) -> None:
    smoothed = smooth(cells, AXES)
    assert all(smoothed[cell] >= (1 - SPREAD_SHARE) * weight for cell, weight in cells.items())


def test_neighbours_get_more_than_what_is_far() -> None:
    smoothed = smooth({Bucket(1, 384, 0): 1.0}, AXES)
    assert smoothed[Bucket(1, 256, 0)] > smoothed.get(Bucket(1, 1024, 0), 0.0)


def test_prompts_without_context_stay_without() -> None:
    assert all(cell.num_blocks == 0 for cell in smooth({Bucket(1, 384, 0): 1.0}, AXES))


def test_prompts_with_context_stay_with_it() -> None:
    assert all(cell.num_blocks > 0 for cell in smooth({Bucket(1, 384, 1): 1.0}, AXES))
