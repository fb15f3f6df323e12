"""The summary of a serving histogram in a report."""

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.compiles import CompileTimes
from gaudi_runtime.contract.report import (
    MAX_COLD_SHAPES,
    MAX_NAMED_VISION,
    MAX_SERVED_BUCKETS,
    BucketPhase,
    ColdShape,
    ServedBucketReport,
    ServedPhaseReport,
    ServedTrafficReport,
    ServedVisionReport,
)
from gaudi_runtime.report.served import coldest_served_shapes, summarize_served
from gaudi_runtime.traffic.padding import Padding
from gaudi_runtime.traffic.serving_histogram import SERVING, ServingHistogram, ServingPaddedShape

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE


def histogram_of(phase: BucketPhase, real: Bucket, bucket: Bucket, *, warm: bool, batches: int = 1) -> ServingHistogram:
    histogram = ServingHistogram(lambda _, shape: ServingPaddedShape(shape, warm=True))
    histogram.observe(phase, real, ServingPaddedShape(bucket, warm), batches)
    return histogram


def test_empty_histogram_is_all_zeros() -> None:
    assert (
        summarize_served(ServingHistogram(lambda _, shape: ServingPaddedShape(shape, warm=True)))
        == ServedTrafficReport()
    )


def test_prompt_padding_includes_queries_and_contexts() -> None:
    found = summarize_served(histogram_of(PROMPT, Bucket(2, 100, 1), Bucket(4, 128, 2), warm=True, batches=10))
    assert found.prompt == ServedPhaseReport(
        hits=10, real_tokens=2000, padded_tokens=5120, real_blocks=20, padded_blocks=80
    )
    assert found.decode == ServedPhaseReport()


def test_decode_padding_includes_sequences_and_batch_blocks() -> None:
    found = summarize_served(histogram_of(DECODE, Bucket(3, 1, 40), Bucket(4, 1, 64), warm=False, batches=10))
    assert found.decode == ServedPhaseReport(
        misses=10, real_tokens=30, padded_tokens=40, real_blocks=400, padded_blocks=640
    )


def test_buckets_are_sorted_by_frequency_and_limited() -> None:
    histogram = histogram_of(PROMPT, Bucket(1, 9, 0), Bucket(1, 10, 0), warm=True, batches=7)
    for query in range(100, 100 + MAX_SERVED_BUCKETS):
        histogram.count_batch(PROMPT, Bucket(1, query, 0))
    buckets = summarize_served(histogram).buckets
    assert buckets[0] == ServedBucketReport(
        phase=PROMPT, bucket=(1, 10, 0), hits=7, misses=0, real_tokens=63, real_blocks=0
    )
    assert len(buckets) == MAX_SERVED_BUCKETS


def test_shapes_that_were_always_warm_are_not_listed_as_cold() -> None:
    assert coldest_served_shapes(histogram_of(PROMPT, Bucket(1, 9, 0), Bucket(1, 10, 0), warm=True)) == ()


def test_list_of_coldest_shapes_has_compiles_and_is_limited() -> None:
    histogram = histogram_of(DECODE, Bucket(1, 1, 3), Bucket(1, 1, 4), warm=False, batches=9)
    histogram.count_compiles(DECODE, Bucket(1, 1, 4))
    for blocks in range(10, 10 + MAX_COLD_SHAPES):
        histogram.observe(DECODE, Bucket(1, 1, blocks), ServingPaddedShape(Bucket(1, 1, blocks), warm=False))
    found = coldest_served_shapes(histogram)
    assert found[0] == ColdShape(phase=DECODE, shape=(1, 1, 4), count=9, compiles=1, needed=(1, 1, 3))
    assert len(found) == MAX_COLD_SHAPES


def test_count_of_a_cold_shape_is_limited_to_a_million() -> None:
    (shape,) = coldest_served_shapes(histogram_of(DECODE, Bucket(1, 1, 3), Bucket(1, 1, 4), warm=False, batches=10**9))
    assert shape.count == 1_000_000


def test_summary_of_the_vision_tower_lists_cold_inputs() -> None:
    histogram = ServingHistogram(lambda _, shape: ServingPaddedShape(shape, warm=True))
    histogram.add_rows([], [["a", True, 3, 0], ["b", False, 2, 1]])
    histogram.add_rows([], [["b", False, 1, 0]])
    assert summarize_served(histogram).vision == ServedVisionReport(hits=3, misses=3, recompiles=1, cold=("b",))
    assert histogram.recompiles == 1


def test_cold_images_are_listed_up_to_a_limit() -> None:
    histogram = ServingHistogram(lambda _, shape: ServingPaddedShape(shape, warm=True))
    histogram.add_rows([], [[str(each), False, 1, 1] for each in range(100)])
    found = summarize_served(histogram).vision
    assert found is not None
    assert (found.misses, len(found.cold)) == (100, MAX_NAMED_VISION)


@pytest.mark.parametrize("row", [["a", True, 3], 7, ["a", True, -1, 0]])
def test_invalid_row_of_the_tower_is_refused(row: object) -> None:
    with pytest.raises(ValueError, match=r"not a row|not a count"):
        ServingHistogram(lambda _, shape: ServingPaddedShape(shape, warm=True)).add_rows([], [row])  # type: ignore[list-item]


def test_only_short_compiles_of_requests_are_small() -> None:
    """The fifth bound is the one above which a compile counts as a recompilation."""
    histogram = ServingHistogram(lambda _, shape: ServingPaddedShape(shape, warm=True))
    counts = (1, 20, 300, 4000, 50_000, 7, 7, 7, 7, 7)
    for stage in (SERVING, "warm"):
        histogram.compile_times[stage] = CompileTimes(stage=stage, recipes=1, seconds=1, counts=counts)
    found = summarize_served(histogram)
    assert found.small_compiles == 54_321
    assert {times.stage for times in found.compile_times} == {SERVING, "warm"}


def test_observed_and_forecast_padding_are_those_of_their_phase() -> None:
    histogram = ServingHistogram(lambda _, shape: ServingPaddedShape(Bucket(4, *shape[1:]), warm=True))
    histogram.padding = {PROMPT: Padding(lambda _, shape: shape[0], by_size={}, overall=1.5)}
    histogram.count_batch(PROMPT, Bucket(2, 100, 0))
    found = summarize_served(histogram)
    assert (found.prompt.padding, found.prompt.forecast_padding) == (2.0, 1.5)
    assert (found.decode.padding, found.decode.forecast_padding) == (None, None)
