"""Spans of starts that would take too long with a real process."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import MAX_SKIPPED, BucketPhase, Phase, SkippedBucket, VisionBucket, WarmupReport
from gaudi_runtime.errors import GraphRefused
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.tracing.start import OtlpStartSpans
from gaudi_runtime.warmup.estimate import StepKind

CAPTURE = (StepKind.CAPTURE, BucketPhase.DECODE, Bucket(2, 1, 8))


@pytest.fixture
def ended() -> InMemorySpanExporter:
    """The ended spans."""
    return InMemorySpanExporter()


@pytest.fixture
def start(ended: InMemorySpanExporter) -> OtlpStartSpans:
    """A start that has just begun."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(ended))
    report = WarmupReport(instance="one", sequence=1, plan_hash="0" * 64, phase=Phase.CAPTURING)
    return OtlpStartSpans(provider.get_tracer("tests"), report, {})


def span_attributes(ended: InMemorySpanExporter, name: str) -> dict[str, object]:
    (span,) = [each for each in ended.get_finished_spans() if each.name == name]
    return dict(span.attributes or {})


def test_graph_that_the_engine_refuses_is_skipped_without_error(
    start: OtlpStartSpans, ended: InMemorySpanExporter
) -> None:
    with pytest.raises(GraphRefused), start.step_span(CAPTURE, 2.5, 1024):
        raise GraphRefused("too many tokens")
    found = span_attributes(ended, "capture")
    assert (found["gaudi.outcome"], found["gaudi.reason"]) == ("skipped", "too many tokens")
    assert (found["gaudi.forecast_seconds"], found["gaudi.memory.free_bytes"]) == (2.5, 1024)
    assert "error.type" not in found


def test_bucket_with_a_capture_span_gets_no_skip_span(start: OtlpStartSpans, ended: InMemorySpanExporter) -> None:
    with pytest.raises(GraphRefused), start.step_span(CAPTURE, None, 0):
        raise GraphRefused("too many tokens")
    start.record_skipped([SkippedBucket(phase=BucketPhase.DECODE, bucket=Bucket(2, 1, 8), reason="too many tokens")])
    assert [each.name for each in ended.get_finished_spans()] == ["capture"]


def test_list_of_skipped_buckets_is_limited(start: OtlpStartSpans, ended: InMemorySpanExporter) -> None:
    many = [SkippedBucket(phase=BucketPhase.DECODE, bucket=(each, 1, 8), reason="no time") for each in range(1000)]
    start.record_skipped(many)
    start.record_skipped(many)
    assert len(ended.get_finished_spans()) == MAX_SKIPPED


def test_vision_bucket_has_a_span_with_its_bytes(start: OtlpStartSpans, ended: InMemorySpanExporter) -> None:
    with start.vision_span(VisionBucket("image", 512, 512, 1), 0) as figures:
        figures["device_bytes"] = 7
    found = span_attributes(ended, "vision")
    assert (found["gaudi.vision.width"], found["gaudi.device_bytes"]) == (512, 7)


def test_stopped_start_ends_all_its_spans(start: OtlpStartSpans, ended: InMemorySpanExporter) -> None:
    with pytest.raises(Stopped), start.step_span(CAPTURE, None, 0):
        raise Stopped
    start.close()
    found = ended.get_finished_spans()
    assert [each.name for each in found] == ["capture", "Capturing", "start"]
    assert {(each.attributes or {})["gaudi.outcome"] for each in found} == {"stopped"}
