"""The spans of a start: one span for each stage and, below it, one span for each bucket."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import MAX_SKIPPED, Phase, SkippedBucket, VisionBucket, WarmupReport
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, ShapeRefused
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.warmup.estimate import Step, StepKind
from gaudi_runtime.warmup.spans import Figures

Attribute = str | int | float | bool

MOST_TEXT = 512
OUTCOMES = {StepKind.COMPILE: "compiled", StepKind.LOAD: "loaded", StepKind.CAPTURE: "captured"}


class OtlpStartSpans:
    """A recorder of the report's stages as spans. The root span ends when the report is `Serving` or `Failed`."""

    def __init__(self, tracer: Tracer, report: WarmupReport, attributes: Mapping[str, Attribute]) -> None:
        """Begin the root span in the phase of `report`. `attributes` describe the whole start."""
        self._tracer, self._lock = tracer, threading.Lock()
        now = time.time_ns()
        self.root = tracer.start_span("start", start_time=now, attributes=dict(attributes))
        self._phase, self._ended = report.phase, False
        self._tried_buckets, self._skip_count = set[tuple[str, Bucket]](), 0
        self._stage_span = self._begin_phase_span(report.phase, now)

    def record_phase(self, report: WarmupReport) -> None:
        """End the span of the last stage and begin a span for the phase of the report."""
        with self._lock:
            if self._ended or report.phase is self._phase:
                return
            now = time.time_ns()
            if report.phase.is_settled:
                self._end_root_span(report, now)
            else:
                self._stage_span.end(now)
                self._phase, self._stage_span = report.phase, self._begin_phase_span(report.phase, now)

    def close(self) -> None:
        """End all open spans with the outcome "stopped", because the process stops before it serves."""
        with self._lock:
            if not self._ended:
                self._ended = True
                for span in (self._stage_span, self.root):
                    span.set_attribute("gaudi.outcome", "stopped")
                    span.end()

    @contextmanager
    def step_span(self, step: Step, forecast: float | None, free_bytes: int) -> Iterator[Figures]:
        """Record a span for a step: compile, load or capture."""
        kind, phase, bucket = step
        attributes: dict[str, Attribute] = {**_bucket_attributes(phase, bucket), "gaudi.memory.free_bytes": free_bytes}
        if forecast is not None:
            attributes["gaudi.forecast_seconds"] = forecast
        self._tried_buckets.add((phase, bucket))
        with self._outcome_span(str(kind), attributes, OUTCOMES[kind]) as figures:
            yield figures
        self._tried_buckets.discard((phase, bucket))

    @contextmanager
    def vision_span(self, bucket: VisionBucket, free_bytes: int) -> Iterator[Figures]:
        """Record a span for a run of the vision tower."""
        attributes: dict[str, Attribute] = {
            "gaudi.vision.modality": bucket.modality,
            "gaudi.vision.width": bucket.width,
            "gaudi.vision.height": bucket.height,
            "gaudi.vision.items": bucket.items,
            "gaudi.memory.free_bytes": free_bytes,
        }
        with self._outcome_span("vision", attributes, OUTCOMES[StepKind.COMPILE]) as figures:
            yield figures

    def record_skipped(self, skipped: Sequence[SkippedBucket]) -> None:
        """Record an event named "skip" for each bucket that was not tried, at most as many as the report lists."""
        untried = [entry for entry in skipped if (entry.phase, Bucket(*entry.bucket)) not in self._tried_buckets]
        for entry in untried[: max(0, MAX_SKIPPED - self._skip_count)]:
            self._skip_count += 1
            attributes = {
                **_bucket_attributes(entry.phase, Bucket(*entry.bucket)),
                "gaudi.outcome": "skipped",
                "gaudi.reason": entry.reason[:MOST_TEXT],
            }
            self._begin_child_span("skip", attributes).end()

    @contextmanager
    def _outcome_span(self, name: str, attributes: Mapping[str, Attribute], outcome: str) -> Iterator[Figures]:
        span, figures = self._begin_child_span(name, attributes), Figures()
        try:
            yield figures
        except BaseException as error:
            _record_error(span, error)
            raise
        else:
            span.set_attribute("gaudi.outcome", outcome)
        finally:
            span.set_attributes({f"gaudi.{key}": value for key, value in figures.items()})
            span.end()

    def _begin_child_span(self, name: str, attributes: Mapping[str, Attribute]) -> Span:
        return self._tracer.start_span(name, set_span_in_context(self._stage_span), attributes=dict(attributes))

    def _begin_phase_span(self, phase: Phase, now: int) -> Span:
        return self._tracer.start_span(str(phase), set_span_in_context(self.root), start_time=now)

    def _end_root_span(self, report: WarmupReport, now: int) -> None:
        self._ended = True
        self.root.set_attributes(_report_attributes(report))
        if report.failure:
            message = report.failure.message[:MOST_TEXT]
            for span in (self._stage_span, self.root):
                span.set_attribute("error.type", report.failure.reason)
                span.set_status(Status(StatusCode.ERROR, message))
        self._stage_span.end(now)
        self.root.end(now)


def _bucket_attributes(phase: str, bucket: Bucket) -> dict[str, Attribute]:
    return {
        "gaudi.phase": str(phase),
        "gaudi.bucket.batch_size": bucket.batch_size,
        "gaudi.bucket.query_tokens": bucket.query_len,
        "gaudi.bucket.kv_blocks": bucket.num_blocks,
    }


def _record_error(span: Span, error: BaseException) -> None:
    """Record an error on a span. If the engine cannot run or capture the shape, record "skipped" and not "failed"."""
    if isinstance(error, Stopped):
        span.set_attribute("gaudi.outcome", "stopped")
        return
    skipped = isinstance(error, DeviceOutOfMemory | GraphRefused | ShapeRefused)
    span.set_attributes({"gaudi.outcome": "skipped" if skipped else "failed", "gaudi.reason": str(error)[:MOST_TEXT]})
    if not isinstance(error, GraphRefused | ShapeRefused):
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)[:MOST_TEXT]))


def _report_attributes(report: WarmupReport) -> dict[str, Attribute]:
    """Return the values of a start from its last report."""
    counts: dict[str, Attribute] = {
        f"gaudi.{name}.{field}": getattr(progress, field)
        for name, progress in (("prompt", report.prompt), ("decode", report.decode))
        for field in ("planned", "warmed", "captured", "cached", "graph_bytes")
    }
    memory = report.memory.model_dump(exclude_none=True) if report.memory else {}
    recipes = {"gaudi.shared_recipes": str(report.shared_recipes.outcome)} if report.shared_recipes else {}
    return {
        **counts,
        "gaudi.skipped": report.skipped_total,
        **{f"gaudi.memory.{name}": value for name, value in memory.items()},
        **recipes,
    }
