"""The guard around the application of an engine: limits, refused requests, and the counts of requests in /metrics."""

import asyncio

import pytest
from httpx import ASGITransport, AsyncClient
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gaudi_runtime.contract.report import RequestCountsReport
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.guard import add_guard
from tests.unit.runtime.configs import sim_config

GENERATING = "/v1/completions"


class GuardedApp:
    """An application behind the guard, and its metrics."""

    def __init__(self, app: ASGIApp, places: int = 1, queued: int = 0, *, closing: bool = False) -> None:
        self.registry = CollectorRegistry()
        self.metrics = RequestMetrics(self.registry)
        config = sim_config(max_num_seqs=places, serving={"max_queued_requests": queued})
        transport = ASGITransport(app=add_guard(app, config, self.metrics, lambda: closing), raise_app_exceptions=False)
        self.client = AsyncClient(transport=transport, base_url="http://pod")

    def answered(self, endpoint: str, code: int) -> float | None:
        """Return the number of responses of an endpoint with this status code."""
        return self.registry.get_sample_value("gaudi_requests_total", {"endpoint": endpoint, "code": str(code)})


async def healthy_app(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that responds to every request."""
    await PlainTextResponse("theirs")(scope, receive, send)


async def failing_app(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that fails before it responds."""
    raise ZeroDivisionError


async def truncating_app(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that fails in the middle of its response."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ZeroDivisionError


class HoldingApp:
    """An application that holds generating requests until `release` is set."""

    def __init__(self) -> None:
        self.inside, self.release = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == GENERATING:
            self.inside.set()
            await self.release.wait()
        await healthy_app(scope, receive, send)


async def test_request_beyond_capacity_is_refused_until_one_ends() -> None:
    slow = HoldingApp()
    server = GuardedApp(slow)
    first = asyncio.create_task(server.client.post(GENERATING, json={}))
    await slow.inside.wait()
    refused = await server.client.post(GENERATING, json={})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error"] == {
        "message": "The queue is full: 1 of 1 places are taken by sequences that run or wait, and the request needs 1. "
        "Try again later.",
        "type": "rate_limit_error",
        "param": None,
        "code": "queue_full",
    }
    slow.release.set()
    assert (await first).text == "theirs"
    assert (await server.client.post(GENERATING, json={})).text == "theirs"


async def test_model_list_is_answered_when_full() -> None:
    slow = HoldingApp()
    server = GuardedApp(slow)
    first = asyncio.create_task(server.client.post(GENERATING, json={}))
    await slow.inside.wait()
    assert (await server.client.get("/v1/models")).text == "theirs"
    slow.release.set()
    await first


async def test_error_before_the_first_byte_is_a_failed_request() -> None:
    server = GuardedApp(failing_app)
    await server.client.post(GENERATING, json={})
    assert server.answered(GENERATING, 500) == 1
    assert server.metrics.request_counts() == RequestCountsReport(answered=1, failed=1)


async def test_failed_page_is_not_reported_as_a_failed_request() -> None:
    server = GuardedApp(failing_app)
    await server.client.get("/v1/models")
    assert server.answered("/v1/models", 500) == 1
    assert server.metrics.request_counts() == RequestCountsReport()


@pytest.mark.parametrize(("path", "running"), [(GENERATING, 1), ("/v1/models", 0)])
async def test_only_generating_requests_are_reported_as_running(path: str, running: int) -> None:
    seen: list[RequestCountsReport] = []

    async def looks(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(server.metrics.request_counts())
        await healthy_app(scope, receive, send)

    server = GuardedApp(looks)
    await server.client.request("POST" if running else "GET", path, json={})
    assert [each.running for each in seen] == [running]


async def test_truncated_answer_is_counted_once() -> None:
    server = GuardedApp(truncating_app)
    await server.client.post(GENERATING, json={})
    assert (server.answered(GENERATING, 200), server.answered(GENERATING, 500)) == (1, None)
    assert server.metrics.request_counts() == RequestCountsReport(answered=1, failed=1)


async def test_truncated_page_is_not_reported_as_a_failed_request() -> None:
    server = GuardedApp(truncating_app)
    await server.client.get("/v1/models")
    assert server.metrics.request_counts() == RequestCountsReport()


async def test_wrong_method_is_refused_with_the_allowed_method() -> None:
    answer = await GuardedApp(healthy_app).client.get(GENERATING)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    error = answer.json()["error"]
    assert (error["message"], error["type"]) == ("/v1/completions requires POST.", "invalid_request_error")


async def test_unknown_paths_share_one_metric_label() -> None:
    server = GuardedApp(healthy_app)
    for path in ("/a", "/b"):
        await server.client.get(path)
    assert server.answered("other", 404) == 2


@pytest.mark.parametrize("path", [GENERATING, "/tokenize"])
async def test_application_reads_the_body_of_a_request(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(await Request(scope, receive).body())(scope, receive, send)

    monkeypatch.setenv("VLLM_API_KEY", "sk-key")
    headers = {"authorization": "Bearer sk-key", "content-type": "application/json"}
    assert (await GuardedApp(echo).client.post(path, content=b"abc", headers=headers)).text == "abc"


async def test_application_reads_the_body_of_a_get_request() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(await Request(scope, receive).body())(scope, receive, send)

    assert (await GuardedApp(echo).client.request("GET", "/v1/models", content=b"abc")).text == "abc"


async def test_answer_without_headers_closes_its_connection_while_closing() -> None:
    async def without_headers(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    answer = await GuardedApp(without_headers, closing=True).client.get("/v1/models")
    assert answer.headers["connection"] == "close"
