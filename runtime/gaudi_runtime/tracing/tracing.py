"""The tracing interface for the rest of the runtime. Without a collector, it imports and records nothing."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from starlette.types import ASGIApp

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.process.worker import run_in_worker_thread
from gaudi_runtime.tracing.collector import GRPC, HTTP, Collector, read_collector
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from gaudi_runtime.warmup.spans import NoSpans, WarmupSpans

if TYPE_CHECKING:
    from gaudi_runtime.tracing.otlp import OtlpTracing

log = logging.getLogger(__name__)


class StartSpans(WarmupSpans, Protocol):
    """The tracing interface for the spans of this process's start. All methods are thread-safe."""

    def record_phase(self, report: WarmupReport) -> None:
        """Begin a span for the phase of this report, and end the span of the phase before it."""


class Tracing(Protocol):
    """All traces of this process."""

    @property
    def start(self) -> StartSpans:
        """The spans of the start of this process."""

    def wrap_app(self, app: ASGIApp, counters: Callable[[], ServingHistogram] | None = None) -> ASGIApp:
        """Return `app` with a span for each request that runs the model. `counters` returns the observed shapes."""

    async def close(self) -> None:
        """Send the waiting spans within one second. No spans may be recorded after this call."""


class _NoStartSpans(NoSpans):
    def record_phase(self, report: WarmupReport) -> None:
        """Do nothing."""


class _NoTracing:
    start: StartSpans = _NoStartSpans()

    def wrap_app(self, app: ASGIApp, counters: Callable[[], ServingHistogram] | None = None) -> ASGIApp:
        """Return `app` unchanged."""
        return app

    async def close(self) -> None:
        """Do nothing."""


NO_TRACING: Tracing = _NoTracing()


@asynccontextmanager
async def open_tracing(
    config: RuntimeConfig, report: WarmupReport, environment: Mapping[str, str] = os.environ
) -> AsyncIterator[Tracing]:
    """Yield the tracing of this process. After the block, send the last spans within one second.

    `report` is the first report of the process.
    """
    collector = read_collector(environment)
    if collector is None:
        yield NO_TRACING
        return
    if not collector.is_supported:
        log.warning(
            "Traces are not sent: the OTLP protocol is %s, but must be %s or %s.", collector.protocol, HTTP, GRPC
        )
        yield NO_TRACING
        return
    try:
        tracing = await run_in_worker_thread(lambda: _make_tracing(collector, config, report))
    except Exception as error:  # missing packages or an unreadable header must not prevent serving
        log.warning("Traces are not sent to %s: %s", collector.endpoint, error)
        yield NO_TRACING
        return
    log.info("Traces are sent to %s (%s)", collector.endpoint, collector.protocol)
    try:
        yield tracing
    finally:
        await tracing.close()


def _make_tracing(collector: Collector, config: RuntimeConfig, report: WarmupReport) -> "OtlpTracing":
    # Import the module only if there is a collector, because the import takes half a second and some megabytes.
    from gaudi_runtime.tracing.otlp import OtlpTracing

    return OtlpTracing(collector, config, report)
