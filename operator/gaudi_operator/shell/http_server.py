"""/healthz, /livez, /readyz and /metrics of the operator's own pod, leader or not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gaudi_operator.shell.metrics import Metrics

Verdict = Callable[[], str | None]
"""Why something is not well, as a sentence; None when it is."""


@asynccontextmanager
async def serving(
    host: str, port: int, metrics: Metrics, why_not_alive: Verdict, why_not_ready: Verdict
) -> AsyncIterator[int]:
    """Serve while the context lasts; yields the port that was bound."""
    app = web.Application()

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/livez", _probe(why_not_alive))
    app.router.add_get("/readyz", _probe(why_not_ready))
    app.router.add_get("/metrics", show)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _probe(why_not: Verdict) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        reason = why_not()
        return web.Response(status=503 if reason else 200, text=f"{reason or 'ok'}\n")

    return answer
