"""Responses of a pod's status port are untrusted: size, format, redirects and delays."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.core.names import CONTAINER
from gaudi_operator.shell.polling.status_port import (
    StatusPort,
    StatusPortClient,
    StatusPortReportUnusable,
    StatusPortUnreachable,
    status_port_of,
)
from gaudi_runtime.contract.report import MAX_REPORT_BYTES, Phase, WarmupReport
from tests.world.api import Object

REPORT = WarmupReport(instance="i", sequence=3, plan_hash="0" * 64, phase=Phase.LOADING)
BODY = REPORT.model_dump_json(by_alias=True).encode()

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def ports() -> AsyncIterator[StatusPortClient]:
    async with StatusPortClient() as opened:
        yield opened


async def fetch_answered_with(ports: StatusPortClient, answer: Answer) -> WarmupReport:
    """Return the report that the client reads if the status port responds with `answer`."""
    app = web.Application()
    app.router.add_get("/v1/warmup", answer)
    app.router.add_get("/elsewhere", respond(BODY))
    async with TestServer(app) as server:
        assert server.port
        return await ports.fetch(StatusPort("uid", "c", "127.0.0.1", server.port), after=2, wait=0.0)


def respond(body: bytes, status: int = 200, **headers: str) -> Answer:
    """Return a handler that always sends this response."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers=headers)

    return answer


async def test_report_is_read(ports: StatusPortClient) -> None:
    assert await fetch_answered_with(ports, respond(BODY)) == REPORT


async def test_closed_port_has_a_short_message(ports: StatusPortClient) -> None:
    async with TestServer(web.Application()) as server:
        assert server.port
        closed = StatusPort("uid", "c", "127.0.0.1", server.port)
    with pytest.raises(
        StatusPortUnreachable, match=r"^no answer of http://127\.0\.0\.1:\d+/v1/warmup: connection refused$"
    ):
        await ports.fetch(closed, after=0, wait=0.0)


async def test_control_characters_of_a_report_are_escaped(ports: StatusPortClient) -> None:
    failed = REPORT.model_dump(by_alias=True, mode="json") | {"failure": {"reason": "Bad", "message": "\x1b[2Jgone\n"}}
    report = await fetch_answered_with(ports, respond(json.dumps(failed).encode()))
    assert report.failure
    assert report.failure.message == "\\x1b[2Jgone "


@pytest.mark.parametrize("name", ["instance", "planHash", "bucketsDigest"])
async def test_report_with_control_characters_in_identifiers_is_unusable(ports: StatusPortClient, name: str) -> None:
    spoilt = REPORT.model_dump(by_alias=True, mode="json") | {name: "\x1b" * 64}
    with pytest.raises(StatusPortReportUnusable, match=name):
        await fetch_answered_with(ports, respond(json.dumps(spoilt).encode()))


async def test_query_has_the_last_sequence_and_the_wait_time(ports: StatusPortClient) -> None:
    queries: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        return await respond(BODY)(request)

    await fetch_answered_with(ports, answer)
    assert queries == [{"after": "2", "wait": "0"}]


async def test_redirect_is_not_followed(ports: StatusPortClient) -> None:
    with pytest.raises(StatusPortReportUnusable):
        await fetch_answered_with(ports, respond(b"", 302, Location="/elsewhere"))


@pytest.mark.parametrize("status", [204, 404, 500])
async def test_other_status_than_200_is_unusable(ports: StatusPortClient, status: int) -> None:
    with pytest.raises(StatusPortReportUnusable):
        await fetch_answered_with(ports, respond(b"", status))


async def test_compressed_report_is_unusable(ports: StatusPortClient) -> None:
    with pytest.raises(StatusPortReportUnusable):
        await fetch_answered_with(ports, respond(BODY, **{"Content-Encoding": "gzip"}))


async def test_report_of_the_maximum_size_is_read(ports: StatusPortClient) -> None:
    assert await fetch_answered_with(ports, respond(BODY.ljust(MAX_REPORT_BYTES))) == REPORT


async def test_larger_report_is_unusable(ports: StatusPortClient) -> None:
    with pytest.raises(StatusPortReportUnusable):
        await fetch_answered_with(ports, respond(BODY.ljust(MAX_REPORT_BYTES + 1)))


async def test_report_without_an_end_is_unusable(ports: StatusPortClient) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        chunk = b" " * 65_536
        while request.transport:
            await response.write(chunk)
        return response

    with pytest.raises(StatusPortReportUnusable):
        await fetch_answered_with(ports, answer)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", BODY.replace(b"Loading", b"Dreaming")])
async def test_answer_that_is_not_a_report_is_unusable(ports: StatusPortClient, body: bytes) -> None:
    with pytest.raises(StatusPortReportUnusable):
        await fetch_answered_with(ports, respond(body))


async def test_content_of_the_answer_is_not_in_the_reason(ports: StatusPortClient) -> None:
    with pytest.raises(StatusPortReportUnusable) as unusable:
        await fetch_answered_with(ports, respond(BODY.replace(b"Loading", b"SECRET")))
    assert "SECRET" not in str(unusable.value)


async def test_closed_port_is_unreachable(ports: StatusPortClient, unused_tcp_port: int) -> None:
    with pytest.raises(StatusPortUnreachable):
        await ports.fetch(StatusPort("uid", "c", "127.0.0.1", unused_tcp_port), 0, 0.0)


def pod(state: str = "running", **status: object) -> Object:
    container = {"name": CONTAINER, "containerID": "c", "state": {state: {}}}
    ports = [{"name": "status", "containerPort": 9001}]
    return {
        "metadata": {"uid": "u"},
        "spec": {"containers": [{"name": CONTAINER, "ports": ports}]},
        "status": {"podIP": "10.0.0.1", "containerStatuses": [container], **status},
    }


def test_running_container_is_polled_at_its_port() -> None:
    assert status_port_of(pod()) == StatusPort("u", "c", "10.0.0.1", 9001)


def test_container_without_a_named_port_is_polled_at_the_default() -> None:
    found = status_port_of({**pod(), "spec": {}})
    assert found
    assert found.port == 8001


def test_ipv6_address_is_in_brackets() -> None:
    found = status_port_of(pod(podIP="fd00::1"))
    assert found
    assert found.url == "http://[fd00::1]:9001/v1/warmup"


@pytest.mark.parametrize(
    "unreachable",
    [
        pod("waiting"),
        pod("terminated"),
        pod(podIP=""),
        pod(containerStatuses=[]),
        {**pod(), "metadata": {"uid": "u", "deletionTimestamp": "2026-08-01T12:00:00Z"}},
    ],
)
def test_pod_that_is_not_running_is_not_polled(unreachable: Object) -> None:
    assert status_port_of(unreachable) is None
