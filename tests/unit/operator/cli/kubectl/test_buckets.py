"""`kubectl gaudi buckets`: the cells of the map, and the choice of the pod whose buckets are shown."""

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, PodState
from gaudi_operator.cli.kubectl.buckets import bucket_heat_maps, cold_shape_lines, default_pod_name
from gaudi_operator.cli.plan.heat import MISS, Cell
from gaudi_runtime.contract.bucket_table import BucketRow, BucketState, BucketTable
from gaudi_runtime.contract.report import BucketPhase

PROMPT, DECODE = BucketPhase


def row(bucket: tuple[int, int, int], state: BucketState = BucketState.CAPTURED, **counts: int) -> BucketRow:
    phase = DECODE if bucket[1] == 1 else PROMPT
    return BucketRow(phase=phase, bucket=bucket, state=state, **counts)


def table(*rows: BucketRow, left_off: int = 0) -> BucketTable:
    return BucketTable(instance="i", rows=rows, left_off=left_off)


def cell(*rows: BucketRow) -> Cell | None:
    [found] = bucket_heat_maps(table(*rows))
    return found.cell((rows[0].bucket[0], rows[0].bucket[1]))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (BucketState.CAPTURED, "12"),
        (BucketState.WARM, "12"),
        (BucketState.WITHOUT_GRAPH, "~12"),
        (BucketState.PLANNED, "..."),
        (BucketState.COMPILING, "..."),
    ],
)
def test_cell_shows_batch_count_and_bucket_state(state: BucketState, text: str) -> None:
    found = cell(row((2, 128, 0), state, hits=12))
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize("state", [BucketState.COLD, BucketState.UNPLANNED])
def test_cold_and_unplanned_shapes_are_shown_as_cold(state: BucketState) -> None:
    assert cell(row((2, 128, 0), state, misses=3)) == Cell("cold", MISS.heat)


def test_cell_is_cold_if_any_of_its_contexts_is() -> None:
    found = cell(row((2, 128, 0), hits=5), row((2, 128, 4), BucketState.COLD))
    assert found == Cell("cold", None)


def test_hottest_cell_has_the_most_batches() -> None:
    [found] = bucket_heat_maps(table(row((1, 128, 0), hits=1000), row((1, 256, 0), hits=1), row((1, 512, 0))))
    heats = [cell.heat for cell in (found.cell((1, length)) for length in (128, 256, 512)) if cell]
    assert heats == [1.0, 0.05, 0.0]


def test_title_does_not_count_unplanned_buckets() -> None:
    rows = [row((1, 1, 4)), row((2, 1, 4), BucketState.WITHOUT_GRAPH), row((3, 1, 4), BucketState.UNPLANNED)]
    [found] = bucket_heat_maps(table(*rows))
    assert found.title == "2 decode buckets, 1 captured: batch size across, KV blocks of the batch down"


def test_cold_batches_are_listed_most_frequent_first() -> None:
    rows = [row((1, 1, 4), hits=3, misses=1), row((2, 1, 4), misses=5, compiles=1), row((3, 1, 4), hits=9)]
    assert list(cold_shape_lines(table(*rows))) == [
        "decode (2, 1, 4): 5 of 5 batches cold, 1 compile waited for",
        "decode (1, 1, 4): 1 of 4 batches cold",
    ]


def test_number_of_omitted_buckets_is_printed() -> None:
    assert list(cold_shape_lines(table(left_off=2))) == ["2 more buckets did not fit into the answer"]


def pod(name: str, ready: bool, percent: int) -> PodState:
    return PodState(name=name, revision="r", phase="Capturing", gate=ready, ready=ready, warmup_percent=percent)


def test_ready_pod_is_chosen_before_a_more_advanced_one() -> None:
    pods = (pod("a", False, 99), pod("b", True, 90), pod("c", False, 10))
    assert default_pod_name(GaudiInferenceStatus(pods=pods)) == "b"


def test_most_advanced_pod_is_chosen_if_no_pod_is_ready() -> None:
    assert default_pod_name(GaudiInferenceStatus(pods=(pod("a", False, 10), pod("b", False, 20)))) == "b"


def test_no_pod_is_chosen_if_none_exists() -> None:
    assert default_pod_name(GaudiInferenceStatus()) is None
