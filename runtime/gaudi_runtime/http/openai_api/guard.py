"""The same bounds around an application that an engine brings: how many requests, how large, and the closing mode."""

from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.admission import Admission
from gaudi_runtime.http.openai_api.api_key import behind_key
from gaudi_runtime.http.openai_api.edge import GENERATING, Edge
from gaudi_runtime.http.openai_api.errors import Overloaded


class Queue:
    """ASGI middleware: requests that make the engine work take a place in the house, and hear 429 when it is full."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] not in GENERATING:
            await self._app(scope, receive, send)
            return
        try:
            ticket = self._admission.admit(1)
        except Overloaded as error:
            await JSONResponse(error.body(), error.status, error.headers)(scope, receive, send)
            return
        with ticket:
            await self._app(scope, receive, send)


def guarded(app: ASGIApp, config: RuntimeConfig, metrics: RequestMetrics, closing: Callable[[], bool]) -> ASGIApp:
    """`app` behind the limits of the model port."""
    admission = Admission(config.limits.max_num_seqs, config.serving.max_queued_requests)
    return Edge(behind_key(Queue(app, admission)), closing=closing, metrics=metrics)
