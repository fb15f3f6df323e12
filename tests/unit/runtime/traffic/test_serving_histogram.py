"""A server's histogram of served shapes, which has a limited size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.report.served import summarize_served
from gaudi_runtime.traffic.histogram import MOST_LINES, histogram_weight
from gaudi_runtime.traffic.serving_histogram import (
    MOST_BUCKETS,
    MOST_SHAPES,
    ServingHistogram,
    ServingPaddedShape,
    ServingTally,
    make_padder,
)

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
PLAN = BucketPlan((Bucket(1, 128, 0), Bucket(1, 512, 0)), (Bucket(4, 1, 64),))
LIMITS = Limits(max_num_seqs=8, max_model_len=1024, max_num_batched_tokens=1024, block_size=128)
COLD = {(PROMPT, Bucket(1, 512, 0))}


def served_by_plan() -> ServingHistogram:
    return ServingHistogram(
        make_padder(PLAN, LIMITS, lambda *key: key[1] in PLAN.buckets_of(key[0]) and key not in COLD)
    )


def unpadded(most_buckets: int = MOST_BUCKETS) -> ServingHistogram:
    return ServingHistogram(lambda phase, real: ServingPaddedShape(real, warm=True), most_buckets)


def test_batch_in_a_warm_bucket_is_a_hit() -> None:
    histogram = served_by_plan()
    assert histogram.count_batch(PROMPT, Bucket(1, 100, 0)) == Bucket(1, 128, 0)
    assert histogram.tallies == {(PROMPT, Bucket(1, 128, 0)): ServingTally(hits=1, tokens=100)}


def test_batch_in_a_bucket_without_graph_is_cold() -> None:
    histogram = served_by_plan()
    histogram.count_batch(PROMPT, Bucket(1, 400, 0))
    assert (histogram.hits, histogram.cold_batches) == (0, {(PROMPT, Bucket(1, 512, 0)): 1})


def test_batch_without_a_bucket_is_cold_at_its_fallback_shape() -> None:
    histogram = served_by_plan()
    assert histogram.count_batch(PROMPT, Bucket(2, 100, 0)) == Bucket(4, 160, 0)
    assert histogram.cold_batches == {(PROMPT, Bucket(4, 160, 0)): 1}


def test_tally_has_the_smallest_bucket_for_all_its_misses() -> None:
    histogram = served_by_plan()
    for real in (Bucket(3, 190, 0), Bucket(4, 170, 0)):
        assert histogram.count_batch(PROMPT, real) == Bucket(4, 192, 0)
    assert histogram.tallies[PROMPT, Bucket(4, 192, 0)].needed == Bucket(4, 190, 0)


def test_tally_of_a_decode_batch_adds_its_blocks_once() -> None:
    histogram = served_by_plan()
    histogram.count_batch(DECODE, Bucket(3, 1, 40))
    assert histogram.tallies[DECODE, Bucket(4, 1, 64)] == ServingTally(hits=1, tokens=3, blocks=40)


def test_tally_of_a_prompt_batch_multiplies_blocks_by_sequences() -> None:
    histogram = unpadded()
    histogram.count_batch(PROMPT, Bucket(3, 100, 2))
    assert histogram.tallies[PROMPT, Bucket(3, 100, 2)] == ServingTally(hits=1, tokens=300, blocks=6)


def test_compiles_are_counted_under_the_shape_of_their_batch() -> None:
    histogram = served_by_plan()
    histogram.count_compiles(PROMPT, histogram.count_batch(PROMPT, Bucket(1, 400, 0)), 2)
    assert (histogram.recompiles, histogram.tallies[PROMPT, Bucket(1, 512, 0)].compiles) == (2, 2)


def test_absorbed_rows_equal_locally_counted_batches() -> None:
    absorbed, met = served_by_plan(), served_by_plan()
    absorbed.add_rows([["prompt", [1, 400, 0], None, 2, 1], ["decode", [3, 1, 40], None, 1, 0]])
    for _ in range(2):
        bucket = met.count_batch(PROMPT, Bucket(1, 400, 0))
    met.count_compiles(PROMPT, bucket)
    met.count_batch(DECODE, Bucket(3, 1, 40))
    assert (absorbed.tallies, absorbed.traffic()) == (met.tallies, met.traffic())


def test_absorbed_row_is_counted_under_the_executed_shape() -> None:
    """448 is a fallback shape that the plan would pad to 512."""
    histogram = served_by_plan()
    histogram.add_rows(
        [["prompt", [1, 400, 0], [1, 448, 0, False], 1, 1], ["prompt", [1, 90, 0], [1, 448, 0, True], 1, 0]]
    )
    assert histogram.tallies == {(PROMPT, Bucket(1, 448, 0)): ServingTally(1, 1, 1, 490, 0, Bucket(1, 400, 0))}


@pytest.mark.parametrize(
    "row",
    [
        ["prompt", [1, 400, 0], None, 2],
        ["prompt", [1, 400, 0], None, -1, 0],
        ["prompt", [1, "400", 0], None, 1, 0],
        ["prompt", [1, 400], None, 1, 0],
        ["prompt", [1, 400, 0], [1, 512, 0], 1, 0],
        ["prefill", [1, 400, 0], None, 1, 0],
    ],
)
def test_malformed_row_is_refused(row: list[object]) -> None:
    with pytest.raises(ValueError, match="is not a row with phase"):
        served_by_plan().add_rows([row])


def test_compile_times_of_several_polls_are_added() -> None:
    histogram = unpadded()
    for count in (2, 3):
        histogram.add_rows([], compile_times=[["serving", 4, 0.5, [count, 0, 0, 0, 1, 1, 0, 0, 0, 0]]])
    served = summarize_served(histogram)
    assert [each.model_dump() for each in served.compile_times] == [
        {"stage": "serving", "recipes": 8, "seconds": 1.0, "counts": (5, 0, 0, 0, 2, 2, 0, 0, 0, 0)}
    ]
    assert served.small_compiles == 7


@pytest.mark.parametrize(
    "row", [["warm", 1, 0.5], ["warm", 1, 0.5, [1]], ["warm", 1, "long", [0] * 10], [[], 1, 1, [0] * 10]]
)
def test_malformed_row_of_compile_times_is_refused(row: list[object]) -> None:
    with pytest.raises(ValueError, match="is not a row with stage"):
        unpadded().add_rows([], compile_times=[row])


def test_step_compiles_of_several_polls_are_added_by_kind() -> None:
    histogram = unpadded()
    for kind in ("logprobs", "top_k", "logprobs"):
        histogram.add_rows([], step_compiles=[["sampler", kind, 1, 0.5]])
    assert [each.model_dump(mode="json") for each in summarize_served(histogram).step_compiles] == [
        {"part": "sampler", "kind": "logprobs", "count": 2, "seconds": 1.0},
        {"part": "sampler", "kind": "top_k", "count": 1, "seconds": 0.5},
    ]


def test_recompilations_of_a_forward_are_counted_once() -> None:
    histogram = unpadded()
    rows = [["prompt", [1, 128, 0], [1, 128, 0, False], 1, 1]]
    parts = [["forward", "", 1, 0.5], ["sampler", "logprobs", 2, 0.5], ["other", "", 3, 0.5]]
    histogram.add_rows(rows, step_compiles=parts)
    assert histogram.recompiles == 6


@pytest.mark.parametrize("row", [["sampler", "", 1], ["sampler", "", -1, 0.5], ["graph", "", 1, 0.5], 7])
def test_malformed_row_of_step_compiles_is_refused(row: object) -> None:
    with pytest.raises(ValueError, match="is not a row with part"):
        unpadded().add_rows([], step_compiles=[row])  # type: ignore[list-item]


def test_sizes_above_4096_are_rounded_up() -> None:
    histogram = unpadded()
    for query in (5000, 100, 4097):
        histogram.count_batch(PROMPT, Bucket(1, query, 0))
    assert histogram.traffic().prompt == {Bucket(1, 100, 0): 1, Bucket(1, 4160, 0): 1, Bucket(1, 5000, 0): 1}


SHAPES = st.builds(Bucket, st.integers(1, 300), st.integers(1, 20_000), st.integers(0, 9000))


@given(st.lists(st.tuples(st.sampled_from(BucketPhase), SHAPES), min_size=1, max_size=40))
def test_traffic_keeps_the_number_of_batches_and_bounds_of_sizes(
    batches: list[tuple[BucketPhase, Bucket]],
) -> None:
    histogram = unpadded()
    for phase, real in batches:
        histogram.count_batch(phase, real)
    for phase in BucketPhase:
        met, remembered = [real for of, real in batches if of is phase], histogram.traffic().shapes_of(phase)
        assert histogram_weight(remembered) == len(met)
        for real in met:
            assert any(all(map(int.__ge__, shape, real)) for shape in remembered)
        for shape in remembered:
            assert all(size <= max(sizes) for size, sizes in zip(shape, zip(*met, strict=True), strict=True))


def test_number_of_real_shapes_is_limited() -> None:
    histogram = unpadded()
    for query in range(1, 20_000):
        histogram.count_batch(PROMPT, Bucket(query % 97 + 1, query, query % 89))
    remembered = histogram.traffic().prompt
    assert MOST_LINES // 4 < len(remembered) <= MOST_SHAPES
    assert histogram_weight(remembered) == 19_999


def test_number_of_buckets_is_limited() -> None:
    histogram = unpadded(most_buckets=100)
    for query in range(1, 5000):
        histogram.count_batch(PROMPT, Bucket(1, query, 0))
    assert len(histogram.tallies) < 115
    assert histogram.hits == 4999
