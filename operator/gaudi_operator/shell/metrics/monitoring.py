"""Monitoring of this process: metrics, and the HTTP server for the kubelet and Prometheus.

All parts of the shell update `MonitoringMetrics`. `serving` exposes /metrics, /healthz, /livez and /readyz, on the
leader and on followers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gaudi_operator.core.observed import Manifest
from gaudi_operator.shell.kinds import EVENT, LEASE, WATCHED
from gaudi_operator.shell.metrics.resource_metrics import ResourceMetrics

_PLURALS = {kind.plural for kind in (*WATCHED, EVENT, LEASE)}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
# The histogram buckets of gate writes. Most writes take milliseconds. The larger buckets make a slow API server
# visible.
_GATE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)


class MonitoringMetrics:
    """All metrics of the process. No metric has a pod label, so the number of series does not depend on the pods."""

    def __init__(self) -> None:
        """Create all metrics with the value 0."""
        # Use a separate registry. The library's global registry rejects a second `MonitoringMetrics` object, because
        # its metrics have the same names.
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.leader = Gauge("gaudi_operator_leader", "1 on the replica that holds the Lease.", registry=registry)
        self.resources = Gauge("gaudi_operator_resources", "GaudiInferences served.", registry=registry)
        self.queued = Gauge("gaudi_operator_queue_depth", "Resources in the queue for a reconcile.", registry=registry)
        self.warming = Gauge("gaudi_operator_pods_warming", "Pods that load, compile or capture.", registry=registry)
        self.reconciles = Counter(
            "gaudi_operator_reconciles_total", "Reconciles, by outcome.", ["outcome"], registry=registry
        )
        self.reconcile_seconds = Histogram(
            "gaudi_operator_reconcile_seconds", "Duration of a reconcile, writes included.", registry=registry
        )
        self.requests = Counter(
            "gaudi_operator_api_requests_total",
            "Requests to the API server, watches included when they start.",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self.gate_seconds = Histogram(
            "gaudi_operator_gate_seconds",
            "From the report that opens a gate to the written gate.",
            buckets=_GATE_SECONDS,
            registry=registry,
        )
        self.gate_sent_seconds = Histogram(
            "gaudi_operator_gate_sent_seconds",
            "Part of gaudi_operator_gate_seconds before the request was sent; the rest is the time of the API server.",
            buckets=_GATE_SECONDS,
            registry=registry,
        )
        self.reports = Counter(
            "gaudi_operator_reports_total",
            "Answers of pods, by result.",
            ["outcome"],
            registry=registry,
        )

        self._resources: Callable[[], Iterable[Manifest]] = tuple
        registry.register(ResourceMetrics(lambda: self._resources()))

    def set_resource_source(self, resources: Callable[[], Iterable[Manifest]]) -> None:
        """Set the function that returns the resources. Every metrics scrape calls this function in a thread."""
        self._resources = resources

    def count_request(self, method: str, path: str, code: int, watch: bool = False) -> None:
        """Count an answered request by verb and resource, as in the audit log of the API server."""
        parts = path.partition("?")[0].strip("/").split("/")
        indexes = [index for index, part in enumerate(parts) if part in _PLURALS]
        resource = "/".join((parts[indexes[-1]], *parts[indexes[-1] + 2 :])) if indexes else "other"
        verb = _VERBS.get(method, method.lower())
        if verb == "get" and indexes and indexes[-1] == len(parts) - 1:
            verb = "watch" if watch else "list"
        self.requests.labels(verb, resource, str(code)).inc()


WhyNot = Callable[[], str | None]
"""A check that returns the problem as a sentence, or None."""


@asynccontextmanager
async def serve_monitoring(
    host: str, port: int, metrics: MonitoringMetrics, why_not_alive: WhyNot, why_not_ready: WhyNot
) -> AsyncIterator[int]:
    """Serve probes and metrics until the context ends. Yields the port of the server."""
    app = web.Application()

    async def render_metrics(_: web.Request) -> web.Response:
        # Render the metrics in a thread. 1,000 resources have tens of thousands of lines, and rendering these lines in
        # the event loop would delay gates.
        text = await asyncio.to_thread(generate_latest, metrics.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.router.add_get("/healthz", _probe_handler(lambda: None))
    app.router.add_get("/livez", _probe_handler(why_not_alive))
    app.router.add_get("/readyz", _probe_handler(why_not_ready))
    app.router.add_get("/metrics", render_metrics)
    # Disable the access log, because probes arrive every few seconds. Do not handle signals here, because replica.py
    # handles signals.
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _probe_handler(why_not: WhyNot) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle_probe(_: web.Request) -> web.Response:
        reason = why_not()
        return web.Response(status=503 if reason else 200, text=f"{reason or 'ok'}\n")

    return handle_probe
