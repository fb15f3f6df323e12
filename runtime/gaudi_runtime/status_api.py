"""The status port: the report, the probes and the metrics. GET only, nothing secret, tiny requests."""

from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gaudi_runtime.contract.ports import LIVEZ_PATH, METRICS_PATH, READYZ_PATH, WARMUP_PATH
from gaudi_runtime.health import why_not_alive, why_not_ready
from gaudi_runtime.http_server import ServerLimits, unless_disconnected
from gaudi_runtime.metrics import Observed
from gaudi_runtime.report_board import MAX_WAIT_SECONDS, ReportBoard, TooManyWaiters

STATUS_LIMITS = ServerLimits(header_bytes=8192, keep_alive_seconds=75, drain_seconds=1, connections=128)


def status_app(
    board: ReportBoard,
    observed: Observed,
    registry: CollectorRegistry,
    stall_timeout: float,
    closing: Callable[[], bool],
) -> FastAPI:
    """The application of the status port. `stall_timeout` in seconds."""
    app = FastAPI(openapi_url=None)

    @app.get(WARMUP_PATH)
    async def warmup(
        request: Request,
        after: Annotated[int, Query(ge=0)] = 0,
        wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0.0,
    ) -> Response:
        try:
            report = await unless_disconnected(request, board.wait_beyond(after, wait))
        except TooManyWaiters:
            raise HTTPException(
                429, "Too many wait for this report; ask without wait.", headers={"Retry-After": "1"}
            ) from None
        return Response("" if report is None else report.model_dump_json(by_alias=True), media_type="application/json")

    @app.get(LIVEZ_PATH)
    async def livez() -> Response:
        return _verdict(why_not_alive(board.report(), stall_timeout, observed.heartbeat_seconds()))

    @app.get(READYZ_PATH)
    async def readyz() -> Response:
        return _verdict(why_not_ready(board.report(), closing()))

    @app.get(METRICS_PATH)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


def _verdict(why_not: str | None) -> Response:
    if why_not is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unavailable", "message": why_not}, status_code=503)
