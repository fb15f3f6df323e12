"""Limits around vLLM's application: concurrent requests, status 429 above the limit, and the closing mode."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.guard import add_guard
from gaudi_runtime.http.openai_api.paths import GENERATING, PAGES
from tests.unit.runtime.knobs.configs import vllm_config

CHAT = "/v1/chat/completions"


@dataclass
class HoldingApp:
    """An application that holds every request until `release` is set. A request with the query `trouble` fails."""

    pending: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold one request until `release` is set."""
        if scope.get("query_string") == b"trouble":
            raise RuntimeError("trouble")
        self.pending += 1
        if self.pending == 2:
            self.full.set()
        await self.release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def send_request(app: ASGIApp, path: str = CHAT, query: bytes = b"", method: str = "POST") -> dict[str, Any]:
    """Send one request, and return the start message of the response."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    kind = b"multipart/form-data; boundary=x" if path.startswith("/v1/audio/") else b"application/json"
    scope = {"type": "http", "path": path, "method": method, "query_string": query}
    await app({**scope, "headers": [(b"content-type", kind)]}, receive, send)
    return dict(sent[0])


@contextmanager
def two_pending(held: HoldingApp, app: ASGIApp) -> Iterator[list[asyncio.Task[dict[str, Any]]]]:
    tasks = [asyncio.create_task(send_request(app)) for _ in range(2)]
    try:
        yield tasks
    finally:
        held.release.set()


def guarded_app(held: HoldingApp, closing: bool = False) -> ASGIApp:
    """Return the guarded application, which accepts one running and one queued request."""
    limits = {"maxNumSeqs": 1, "maxNumBatchedTokens": 4096}
    config = vllm_config(limits=limits, serving={"maxQueuedRequests": 1})
    return add_guard(held, config, RequestMetrics(CollectorRegistry()), lambda: closing)


async def test_full_server_answers_429_with_retry_after() -> None:
    held = HoldingApp()
    app = guarded_app(held)
    with two_pending(held, app):
        await held.full.wait()
        answer = await send_request(app)
        assert answer["status"] == 429
        assert b"retry-after" in dict(answer["headers"])


async def test_pending_requests_are_answered() -> None:
    held = HoldingApp()
    with two_pending(held, guarded_app(held)) as pending:
        await held.full.wait()
    assert [(await each)["status"] for each in pending] == [200, 200]


async def test_answered_request_frees_its_place() -> None:
    held = HoldingApp()
    app = guarded_app(held)
    with two_pending(held, app) as pending:
        await held.full.wait()
    await asyncio.gather(*pending)
    assert (await send_request(app))["status"] == 200


async def test_cancelled_request_frees_its_place() -> None:
    held = HoldingApp()
    app = guarded_app(held)
    with two_pending(held, app) as pending:
        await held.full.wait()
        pending[0].cancel()
        await asyncio.wait(pending[:1])
        held.release.set()
        assert (await send_request(app))["status"] == 200


async def test_failed_request_frees_its_place() -> None:
    held = HoldingApp()
    app = guarded_app(held)
    held.release.set()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="trouble"):
            await send_request(app, query=b"trouble")
    assert (await send_request(app))["status"] == 200


@pytest.mark.parametrize("path", sorted(GENERATING))
async def test_every_generating_path_is_refused_when_full(path: str) -> None:
    held = HoldingApp()
    app = guarded_app(held)
    with two_pending(held, app):
        await held.full.wait()
        assert (await send_request(app, path))["status"] == 429


async def test_other_paths_are_answered_when_full() -> None:
    held = HoldingApp()
    app = guarded_app(held)
    with two_pending(held, app):
        await held.full.wait()
        held.release.set()
        assert (await send_request(app, "/v1/models", method="GET"))["status"] == 200


async def test_every_answer_closes_the_connection_while_closing() -> None:
    held = HoldingApp()
    held.release.set()
    assert (b"connection", b"close") in (await send_request(guarded_app(held, closing=True)))["headers"]


@pytest.mark.parametrize(
    "path",
    [
        "/sleep",
        "/v1/load_lora_adapter",
        "/reset_prefix_cache",
        "/start_profile",
        "/collective_rpc",
        "/inference/v1/generate",
        "/invocations",
        "/v1/completions/",
        "/v1/completions/render",
        "/openapi.json",
        "/metrics",
        "/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unlisted_route_is_not_forwarded(path: str, method: str) -> None:
    held = HoldingApp()
    assert (await send_request(guarded_app(held), path, method=method))["status"] == 404
    assert held.pending == 0


@pytest.mark.parametrize(
    ("path", "method"), [(CHAT, "GET"), (CHAT, "PUT"), ("/v1/models", "POST"), ("/health", "HEAD")]
)
async def test_unlisted_method_is_not_forwarded(path: str, method: str) -> None:
    held = HoldingApp()
    answer = await send_request(guarded_app(held), path, method=method)
    assert (answer["status"], held.pending) == (405, 0)
    assert dict(answer["headers"])[b"allow"] == (b"POST" if path == CHAT else b"GET")


def test_page_lists_every_forwarded_path() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "openai-api.md").read_text()
    assert {path for path in GENERATING | PAGES if not re.search(rf"[` ]{re.escape(path)}`", page)} == set()
