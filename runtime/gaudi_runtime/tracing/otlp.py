"""The OTLP exporter. It sends spans from its own thread and drops the spans that the collector does not accept.

At most OTEL_BSP_MAX_QUEUE_SIZE spans (2048 by default) wait for the exporter. Further spans are dropped.
"""

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from starlette.types import ASGIApp

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.http.openai_api.paths import uses_engine
from gaudi_runtime.process.worker import run_in_worker_thread
from gaudi_runtime.tracing.collector import GRPC, Collector
from gaudi_runtime.tracing.requests import CONTEXT, RequestSpans
from gaudi_runtime.tracing.start import OtlpStartSpans
from gaudi_runtime.traffic.serving_histogram import ServingHistogram

log = logging.getLogger(__name__)

NAME = "gaudi_runtime"
CLOSE_SECONDS = 1.0
"""The time to send the last spans. A pod has ten seconds left after its answers are drained."""
REPEAT_SECONDS = 600.0
MOST_SENTENCES = 100


class OtlpTracing:
    """The OTLP traces of this process. The start is always traced, requests only as OTEL_TRACES_SAMPLER sets it."""

    def __init__(self, collector: Collector, config: RuntimeConfig, report: WarmupReport) -> None:
        """Import the exporter, which takes half a second. Raises the exporter's error about invalid variables."""
        logging.getLogger("opentelemetry").addHandler(_RateLimitedHandler())
        logging.getLogger("opentelemetry").propagate = False
        self._closed = False
        self._exporter = _WatchedExporter(_make_exporter(collector))
        self._processor = BatchSpanProcessor(self._exporter)
        _set_service_name(config)
        self._resource = Resource.create({"service.instance.id": report.instance})
        attributes = {
            "gaudi.model": config.model.served_names[0],
            "gaudi.engine": str(config.engine.name),
            "gaudi.execution_mode": str(config.engine.execution_mode),
            "gaudi.plan_hash": report.plan_hash,
        }
        self.start = OtlpStartSpans(self._make_tracer(ALWAYS_ON), report, attributes)
        # OpenTelemetry passes the parent span to child processes in environment variables. With these variables, vLLM's
        # start-up spans become children of our span.
        CONTEXT.inject(_EnvironmentCarrier(), trace.set_span_in_context(self.start.root))
        self._requests = self._make_tracer(None)

    def wrap_app(self, app: ASGIApp, counters: Callable[[], ServingHistogram] | None = None) -> ASGIApp:
        """Return `app`, wrapped in a middleware that records a span for each request that runs the model."""
        return RequestSpans(app, self._requests, uses_engine, counters)

    async def close(self) -> None:
        """Send the waiting spans within one second. If the collector does not answer, drop them."""
        self.start.close()
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await run_in_worker_thread(self._shut_down)

    def _shut_down(self) -> None:
        # vLLM creates a tracer provider for the whole process. The shutdown of this provider waits half a minute for a
        # collector that does not answer.
        global_provider = trace.get_tracer_provider()
        if isinstance(global_provider, TracerProvider):
            atexit.unregister(global_provider.shutdown)
        if self._exporter.collector_available:
            self._processor.shutdown()  # type: ignore[no-untyped-call]
            if isinstance(global_provider, TracerProvider):
                global_provider.shutdown()

    def _make_tracer(self, sampler: Sampler | None) -> trace.Tracer:
        provider = TracerProvider(sampler, self._resource, shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        return provider.get_tracer(NAME)


class _WatchedExporter(SpanExporter):
    """An exporter that records whether the collector accepted the last batch."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.collector_available = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch of spans and record whether the collector accepted it."""
        result = self._exporter.export(spans)
        self.collector_available = result is SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        """Shut down the inner exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the inner exporter."""
        return self._exporter.force_flush(timeout_millis)


def _make_exporter(collector: Collector) -> SpanExporter:
    # The exporters read other options, such as headers and certificates, directly from the environment.
    if collector.protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

        return OverGrpc(endpoint=collector.endpoint)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp

    return OverHttp(endpoint=collector.endpoint)


def _set_service_name(config: RuntimeConfig) -> None:
    """Set the service name of all spans, including vLLM's, to the model name, unless a service name is set."""
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", config.model.served_names[0])


class _EnvironmentCarrier(dict[str, str]):
    """A mapping that sets environment variables for child processes. It converts names to capital letters."""

    def __setitem__(self, name: str, value: str) -> None:
        os.environ[name.upper()] = value


class _RateLimitedHandler(logging.Handler):
    """A handler for OpenTelemetry's log records. It logs equal records at most once every ten minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock, self._logged_at = clock, dict[str, float]()

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, unless an equal record was logged in the last ten minutes."""
        now = self._clock()
        logged_at = self._logged_at.get(record.msg, -REPEAT_SECONDS)
        if now - logged_at >= REPEAT_SECONDS and len(self._logged_at) < MOST_SENTENCES:
            self._logged_at[record.msg] = now
            log.warning("%s (logged at most once every 10 minutes)", record.getMessage())
