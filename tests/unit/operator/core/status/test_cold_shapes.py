"""The most frequent batches without a warm graph, and the remedy."""

from typing import Any

from gaudi_operator.core.status.cold_shapes import NO_GRAPH, describe_cold_shapes
from gaudi_runtime.contract.report import BucketPhase, ColdShape, WarmupReport
from gaudi_runtime.contract.report_fields import Shape
from tests.unit.operator.core.reports import report

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE


def cold(phase: BucketPhase, shape: Shape, count: int = 1, needed: Shape | None = None) -> ColdShape:
    return ColdShape(phase=phase, shape=shape, count=count, needed=needed)


def described(*reports: WarmupReport) -> str | None:
    return describe_cold_shapes(reports, "tiny")


def report_of(*shapes: ColdShape, **fields: Any) -> WarmupReport:
    return report(cold_shapes=shapes, **fields)


def test_report_without_cold_shapes_has_no_sentence() -> None:
    assert described(report_of()) is None


def test_most_frequent_shape_is_named_with_the_bucket_it_needs() -> None:
    shapes = (cold(PROMPT, (2, 320, 0), 6, needed=(2, 200, 0)), cold(DECODE, (3, 1, 80), 2))
    assert described(report_of(*shapes)) == (
        "Most frequent are prompt batches of shape (2, 320, 0) (75 %), which need at least the bucket (2, 200, 0). "
        "`kubectl gaudi plan learn tiny` plans for all observed batches."
    )


def test_batches_of_all_pods_are_added() -> None:
    found = described(
        report_of(cold(PROMPT, (2, 128, 0), 3)), report_of(cold(PROMPT, (2, 128, 0), 3), cold(DECODE, (3, 1, 80), 4))
    )
    assert found is not None
    assert found.startswith("Most frequent are prompt batches of shape (2, 128, 0) (60 %)")


def test_buckets_without_graph_are_mentioned() -> None:
    found = described(report_of(cold(PROMPT, (1, 256, 0), 7), skipped_total=1))
    assert found is not None
    assert found.endswith(NO_GRAPH)
