"""Whatever answers on a pod's status port is distrusted: its size, its form, where it points to, its silence."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.core.names import CONTAINER
from gaudi_operator.shell.polling.status_port import (
    PodUnreachable,
    StatusPort,
    StatusPortClient,
    UnusableReport,
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


async def asked(ports: StatusPortClient, answer: Answer) -> WarmupReport:
    """What becomes of an answer."""
    app = web.Application()
    app.router.add_get("/v1/warmup", answer)
    app.router.add_get("/elsewhere", whole(BODY))
    async with TestServer(app) as server:
        assert server.port
        return await ports.fetch(StatusPort("uid", "c", "127.0.0.1", server.port), after=2, wait=0.0)


def whole(body: bytes, status: int = 200, **headers: str) -> Answer:
    """A handler that always answers so."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers=headers)

    return answer


async def test_report_is_read(ports: StatusPortClient) -> None:
    assert await asked(ports, whole(BODY)) == REPORT


async def test_port_that_is_closed_is_said_in_few_words(ports: StatusPortClient) -> None:
    async with TestServer(web.Application()) as server:
        assert server.port
        closed = StatusPort("uid", "c", "127.0.0.1", server.port)
    with pytest.raises(PodUnreachable, match=r"^no answer of http://127\.0\.0\.1:\d+/v1/warmup: connection refused$"):
        await ports.fetch(closed, after=0, wait=0.0)


async def test_report_steers_no_terminal(ports: StatusPortClient) -> None:
    failed = REPORT.model_dump(by_alias=True, mode="json") | {"failure": {"reason": "Bad", "message": "\x1b[2Jgone\n"}}
    report = await asked(ports, whole(json.dumps(failed).encode()))
    assert report.failure
    assert report.failure.message == "\\x1b[2Jgone "


@pytest.mark.parametrize("name", ["instance", "planHash", "bucketsDigest"])
async def test_report_whose_names_are_no_words_is_unusable(ports: StatusPortClient, name: str) -> None:
    spoilt = REPORT.model_dump(by_alias=True, mode="json") | {name: "\x1b" * 64}
    with pytest.raises(UnusableReport, match=name):
        await asked(ports, whole(json.dumps(spoilt).encode()))


async def test_question_says_what_is_known(ports: StatusPortClient) -> None:
    questions: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        questions.append(dict(request.query))
        return await whole(BODY)(request)

    await asked(ports, answer)
    assert questions == [{"after": "2", "wait": "0"}]


async def test_redirect_is_not_followed(ports: StatusPortClient) -> None:
    with pytest.raises(UnusableReport):
        await asked(ports, whole(b"", 302, Location="/elsewhere"))


@pytest.mark.parametrize("status", [204, 404, 500])
async def test_other_status_than_200_is_unusable(ports: StatusPortClient, status: int) -> None:
    with pytest.raises(UnusableReport):
        await asked(ports, whole(b"", status))


async def test_compressed_report_is_unusable(ports: StatusPortClient) -> None:
    with pytest.raises(UnusableReport):
        await asked(ports, whole(BODY, **{"Content-Encoding": "gzip"}))


async def test_report_of_the_most_bytes_is_read(ports: StatusPortClient) -> None:
    assert await asked(ports, whole(BODY.ljust(MAX_REPORT_BYTES))) == REPORT


async def test_larger_report_is_unusable(ports: StatusPortClient) -> None:
    with pytest.raises(UnusableReport):
        await asked(ports, whole(BODY.ljust(MAX_REPORT_BYTES + 1)))


async def test_report_without_an_end_is_unusable(ports: StatusPortClient) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        chunk = b" " * 65_536
        while request.transport:
            await response.write(chunk)
        return response

    with pytest.raises(UnusableReport):
        await asked(ports, answer)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", BODY.replace(b"Loading", b"Dreaming")])
async def test_what_is_no_report_is_unusable(ports: StatusPortClient, body: bytes) -> None:
    with pytest.raises(UnusableReport):
        await asked(ports, whole(body))


async def test_what_a_pod_sends_stays_out_of_the_reason(ports: StatusPortClient) -> None:
    with pytest.raises(UnusableReport) as unusable:
        await asked(ports, whole(BODY.replace(b"Loading", b"SECRET")))
    assert "SECRET" not in str(unusable.value)


async def test_closed_port_is_unreachable(ports: StatusPortClient, unused_tcp_port: int) -> None:
    with pytest.raises(PodUnreachable):
        await ports.fetch(StatusPort("uid", "c", "127.0.0.1", unused_tcp_port), 0, 0.0)


def pod(state: str = "running", **status: object) -> Object:
    container = {"name": CONTAINER, "containerID": "c", "state": {state: {}}}
    ports = [{"name": "status", "containerPort": 9001}]
    return {
        "metadata": {"uid": "u"},
        "spec": {"containers": [{"name": CONTAINER, "ports": ports}]},
        "status": {"podIP": "10.0.0.1", "containerStatuses": [container], **status},
    }


def test_running_container_is_asked_at_its_port() -> None:
    assert status_port_of(pod()) == StatusPort("u", "c", "10.0.0.1", 9001)


def test_container_without_a_named_port_is_asked_at_the_usual() -> None:
    found = status_port_of({**pod(), "spec": {}})
    assert found
    assert found.port == 8001


def test_address_of_ipv6_stands_in_brackets() -> None:
    found = status_port_of(pod(podIP="fd00::1"))
    assert found
    assert found.url == "http://[fd00::1]:9001/v1/warmup"


@pytest.mark.parametrize(
    "nobody",
    [
        pod("waiting"),
        pod("terminated"),
        pod(podIP=""),
        pod(containerStatuses=[]),
        {**pod(), "metadata": {"uid": "u", "deletionTimestamp": "2026-08-01T12:00:00Z"}},
    ],
)
def test_what_does_not_run_is_not_asked(nobody: Object) -> None:
    assert status_port_of(nobody) is None
