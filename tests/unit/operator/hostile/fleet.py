"""A fleet of pods with the largest possible reports, and an operator with 512 MiB that polls all of them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from gaudi_operator.core.observed import ObservedReport
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.reports import ReportPoller
from gaudi_operator.shell.polling.status_port import StatusPortClient
from gaudi_operator.shell.watching.store import StoreKey
from gaudi_runtime.contract.report import MAX_REPORT_BYTES
from tests.support.builders import Object
from tests.unit.operator.core.stories import served
from tests.unit.operator.hostile.limited import run

PODS = 600
"""Complete, their reports take more than 600 MiB: one 4-byte character makes Python store 4 bytes per character."""


def status_of_a_fleet() -> dict[str, Any]:
    """Return the status of a resource with 600 pods and the largest reports."""
    return asyncio.run(_status())


async def _status() -> dict[str, Any]:
    async with _pods() as port:
        ended = await asyncio.to_thread(run, _operate, port)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _operate(port: int) -> None:
    """Print the status after two reconciles with the reports of all pods, which respond on `port`."""
    cluster = served(replicas=1)
    [first] = cluster.kind("Pod")
    [container] = first["spec"]["containers"]
    first["status"]["podIP"] = "127.0.0.1"
    container["ports"] = [{**each, "containerPort": port} for each in container["ports"]]
    for number in range(PODS):
        metadata = {**first["metadata"], "name": f"pod-{number}", "uid": f"uid-{number}"}
        cluster.objects["Pod", metadata["name"]] = {**first, "metadata": metadata}
    del cluster.objects["Pod", first["metadata"]["name"]]
    cluster.resource["spec"]["replicas"] = PODS
    cluster.reports = asyncio.run(_poll_all(cluster.kind("Pod")))
    for _ in range(2):
        cluster.operate()
    sys.stdout.write(json.dumps(cluster.resource["status"]))


async def _poll_all(pods: list[Object]) -> dict[str, ObservedReport]:
    """Return the reports of all pods as soon as each pod has one."""
    received = asyncio.Event()
    async with (
        StatusPortClient() as ports,
        ReportPoller(lambda key, urgent: received.set(), MonitoringMetrics(), ports.fetch, 30.0) as reports,
    ):
        reports.set_polled_pods(StoreKey("models", "tiny"), pods)
        async with asyncio.timeout(60):
            while sum(each.report is not None for each in reports.latest_reports.values()) < PODS:
                await received.wait()
                received.clear()
        return dict(reports.latest_reports)


@asynccontextmanager
async def _pods() -> AsyncIterator[int]:
    """Serve all pods on one port and yield the port.

    A first request for a report (`after=0`) gets the report of the next pod. A later request gets no response.
    """
    [pod] = served(replicas=1).kind("Pod")
    hashed, requests = pod["metadata"]["annotations"][PLAN_HASH_ANNOTATION], 0
    connections = set[asyncio.Task[None] | None]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        connections.add(asyncio.current_task())
        with suppress(ConnectionError):
            while b"after=0&" in await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                requests += 1
                body = largest_report(requests, hashed)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=PODS)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*filter(None, connections))


def largest_report(number: int, plan_hash: str) -> bytes:
    """Return a report of pod `number` with the maximum number of bytes and lists of the maximum length."""
    wide, full = "\U0001f600", {"planned": 1000, "warmed": 1000, "captured": 1000, "graphBytes": 2**60}
    cold = [(1, 2**50, 2**50)] * 10 + [(10 * number + each, 2**50, 2**50 - each) for each in range(10)]
    report = {
        "instance": "first",
        "sequence": 2**60,
        "planHash": plan_hash,
        "phase": "Serving",
        "prompt": full,
        "decode": full,
        "memory": dict.fromkeys(("free", "usable", "graphs", "kvCache", "kvBlocks"), 2**60),
        "coldShapes": [{"phase": "prompt", "shape": each, "count": 10**6, "compiles": 10**6} for each in cold],
        "recompilesSinceReady": 10**6,
        "skipped": [{"phase": "decode", "bucket": [2**60] * 3, "reason": f"{wide}{'r' * 500}"}] * 50,
        "warnings": [f"{wide}{'w' * 2000}"] * 50,
        "engineArguments": [],
    }
    left = MAX_REPORT_BYTES - len(_json(report)) - 1000
    return _json({**report, "engineArguments": [f"{wide}{'a' * 1000}"] * (left // 1010)})


def _json(report: dict[str, Any]) -> bytes:
    return json.dumps(report, ensure_ascii=False).encode()
