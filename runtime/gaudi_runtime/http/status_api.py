"""The status port: the report, the probes, the metrics and a status page.

The port accepts only small GET requests, and its answers contain no secrets.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from importlib.resources import files
from typing import Annotated

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gaudi_runtime.contract.ports import (
    BUCKETS_PATH,
    LIVEZ_PATH,
    METRICS_PATH,
    PAGE_PATH,
    READYZ_PATH,
    TRAFFIC_PATH,
    WARMUP_PATH,
)
from gaudi_runtime.contract.report import Phase, WarmupReport
from gaudi_runtime.http.connection import ConnectionLimits
from gaudi_runtime.http.metrics import MetricSources
from gaudi_runtime.http.server import cancel_on_disconnect, get_server_route
from gaudi_runtime.report.report_board import MAX_WAIT_SECONDS, ReportBoard, TooManyReportWaiters
from gaudi_runtime.traffic.histogram import format_traffic

# The timeouts are short, because clients of this port repeat their requests. So a pod that ends does not wait for these
# clients.
STATUS_LIMITS = ConnectionLimits(
    header_bytes=8192, keep_alive_seconds=75, drain_seconds=1, max_connections=128, linger_seconds=0
)

HEARTBEAT_LIMIT_SECONDS = 60.0

PAGE = (files("gaudi_runtime.http") / "page.html").read_bytes()

TRAFFIC_HEAD = "# Shapes since this instance began to serve: phase, batch size, query tokens, KV blocks, batches\n"


class _WarmupQuery(BaseModel):
    """A long-poll of the status port. It waits up to `wait` seconds for a report with a sequence above `after`."""

    model_config = ConfigDict(allow_inf_nan=False)

    after: Annotated[int, Field(ge=0)] = 0
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0.0


class StatusPort:
    """The request handlers of the status port. `stall_timeout` is in seconds."""

    def __init__(
        self,
        board: ReportBoard,
        sources: MetricSources,
        registry: CollectorRegistry,
        stall_timeout: float,
        is_closing: Callable[[], bool],
    ) -> None:
        self._board, self._sources, self._registry = board, sources, registry
        self._stall_timeout, self._is_closing = stall_timeout, is_closing

    async def warmup(self, request: Request) -> Response:
        """Answer with the report, immediately or after the next change."""
        try:
            poll = _WarmupQuery.model_validate(dict(request.query_params))
            report = await cancel_on_disconnect(request, self._board.wait_for_update(poll.after, poll.wait))
        except ValidationError as error:
            details = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            return JSONResponse({"detail": details}, 422)
        except TooManyReportWaiters:
            sentence = "Too many clients wait for this report. Send the request without wait."
            return JSONResponse({"detail": sentence}, 429, {"Retry-After": "1"})
        return Response("" if report is None else report.model_dump_json(by_alias=True), media_type="application/json")

    async def livez(self, _: Request) -> Response:
        """Answer whether the container is alive. If it is not, a restart helps."""
        return _probe_response(
            why_not_alive(self._board.report(), self._stall_timeout, self._sources.heartbeat_seconds())
        )

    async def readyz(self, _: Request) -> Response:
        """Answer whether the instance may receive traffic."""
        return _probe_response(why_not_ready(self._board.report(), self._is_closing()))

    async def metrics(self, _: Request) -> Response:
        """Answer with all metrics for Prometheus."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def traffic(self, _: Request) -> Response:
        """Answer with the shapes since serving began, in the form that strategy `Optimal` reads; empty before that."""
        engine = self._sources.engine
        return PlainTextResponse(TRAFFIC_HEAD + (format_traffic(engine.counters.traffic()) if engine else ""))

    async def buckets(self, _: Request) -> Response:
        """Answer with every bucket and its state. While the instance serves, include the batches of each bucket."""
        engine, instance = self._sources.engine, self._board.report().instance
        table = self._board.buckets.table(instance, engine.counters.tallies if engine else {})
        return Response(table.model_dump_json(by_alias=True, exclude_none=True), media_type="application/json")

    async def page(self, _: Request) -> Response:
        """Answer with the status page, a single file that loads only the report and the buckets."""
        return Response(PAGE, media_type="text/html", headers=PAGE_HEADERS)


def status_app(
    board: ReportBoard,
    sources: MetricSources,
    registry: CollectorRegistry,
    stall_timeout: float,
    is_closing: Callable[[], bool],
) -> Starlette:
    """Return the application of the status port. `stall_timeout` is in seconds."""
    status_port = StatusPort(board, sources, registry, stall_timeout, is_closing)
    return Starlette(
        routes=[
            get_server_route(WARMUP_PATH, status_port.warmup),
            get_server_route(LIVEZ_PATH, status_port.livez),
            get_server_route(READYZ_PATH, status_port.readyz),
            get_server_route(METRICS_PATH, status_port.metrics),
            get_server_route(TRAFFIC_PATH, status_port.traffic),
            get_server_route(BUCKETS_PATH, status_port.buckets),
            get_server_route(PAGE_PATH, status_port.page),
        ]
    )


def _element_hash(tag: bytes) -> str:
    """Return the hash of the page's element with this tag, for the content security policy of the page."""
    content = PAGE.partition(b"<" + tag + b">")[2].partition(b"</" + tag + b">")[0]
    return f"'sha256-{b64encode(hashlib.sha256(content).digest()).decode()}'"


PAGE_HEADERS = {
    # A report contains text from other sources, such as the name of a checkpoint. The policy prevents the browser from
    # executing this text.
    "Content-Security-Policy": f"default-src 'none'; connect-src 'self'; style-src {_element_hash(b'style')}; "
    f"script-src {_element_hash(b'script')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _probe_response(reason: str | None) -> Response:
    if reason is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "message": reason}, status_code=503)


def why_not_alive(report: WarmupReport, stall_timeout: float, heartbeat_seconds: float) -> str | None:
    """Return the reason for a restart, or None if a restart would not help. Both durations are in seconds."""
    # During start-up, only a lack of progress counts as a failure, never a fixed time (docs/internals/warmup.md,
    # Probes). A failed start stays alive. If a restart may help, the process exits by itself (contract/failures.py).
    if not report.phase.is_settled and report.since_progress_seconds > stall_timeout:
        return (
            f"Start-up has made no progress in phase {report.phase}{_current_bucket_text(report)} for "
            f"{report.since_progress_seconds:.0f} s, but the stall timeout is {stall_timeout:.0f} s."
        )
    if report.phase in (Phase.SERVING, Phase.DRAINING) and heartbeat_seconds > HEARTBEAT_LIMIT_SECONDS:
        limit = f"{HEARTBEAT_LIMIT_SECONDS:.0f} s"
        return f"The engine's loop has not run for {heartbeat_seconds:.0f} s, but the limit is {limit}."
    return None


def _current_bucket_text(report: WarmupReport) -> str:
    """Return the current bucket, if any, as part of a sentence."""
    for phase_name, progress in (("prompt", report.prompt), ("decode", report.decode)):
        if progress.current:
            return f" at {phase_name} bucket {tuple(progress.current)}"
    return ""


def why_not_ready(report: WarmupReport, is_closing: bool) -> str | None:
    """Return why this instance must get no traffic, or None if it is ready.

    `is_closing` is True if the pod is about to end.
    """
    if report.failure is not None:
        return f"Start-up failed ({report.failure.reason}): {report.failure.message}"
    if report.phase is not Phase.SERVING:
        return f"This instance is in phase {report.phase}. The model port is open only in phase Serving."
    if is_closing:
        return "This instance is about to end. It still answers, but should get no new traffic."
    return None
