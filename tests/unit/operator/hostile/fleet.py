"""A fleet of pods that answer with the largest reports, and an operator of 512 MiB that follows all of them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from gaudi_operator.core.observed import PodReport
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.polling.reports import Reports
from gaudi_operator.shell.polling.status_port import StatusPortClient
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.contract.report import MAX_REPORT_BYTES
from tests.support.builders import Object
from tests.unit.operator.core.stories import served
from tests.unit.operator.hostile.limited import run

PODS = 600
"""Whole, their reports take more than 600 MiB: one character of four bytes makes a text take four times its bytes."""


def status_of_a_fleet() -> dict[str, Any]:
    """The status of a resource whose 600 pods report as much as they may."""
    return asyncio.run(_status())


async def _status() -> dict[str, Any]:
    async with _pods() as port:
        ended = await asyncio.to_thread(run, _operate, port)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _operate(port: int) -> None:
    """Print the status of a resource after two passes that see the reports of all pods behind a port."""
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
    cluster.reports = asyncio.run(_followed(cluster.kind("Pod")))
    for _ in range(2):
        cluster.operate()
    sys.stdout.write(json.dumps(cluster.resource["status"]))


async def _followed(pods: list[Object]) -> dict[str, PodReport]:
    """The reports of all pods, as soon as each has one."""
    heard = asyncio.Event()
    async with (
        StatusPortClient() as ports,
        Reports(lambda key, urgent: heard.set(), Metrics(), ports.fetch, 30.0) as reports,
    ):
        reports.follow(Key("models", "tiny"), pods)
        async with asyncio.timeout(60):
            while sum(word.report is not None for word in reports.latest.values()) < PODS:
                await heard.wait()
                heard.clear()
        return dict(reports.latest)


@asynccontextmanager
async def _pods() -> AsyncIterator[int]:
    """All pods behind one port: whoever asks for the first time is the next one, and hears no news after that."""
    [pod] = served(replicas=1).kind("Pod")
    hashed, asked = pod["metadata"]["annotations"][PLAN_HASH_ANNOTATION], 0
    open_ones = set[asyncio.Task[None] | None]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        open_ones.add(asyncio.current_task())
        with suppress(ConnectionError):
            while b"after=0&" in await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                asked += 1
                body = largest_report(asked, hashed)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=PODS)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*filter(None, open_ones))


def largest_report(number: int, plan_hash: str) -> bytes:
    """A report of as many bytes as it may have, with lists as long as they may be, of pod `number`."""
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
