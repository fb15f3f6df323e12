"""The bounds around vLLM's own application: so many requests at once, 429 for the next, and the closing mode."""

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
from gaudi_runtime.http.openai_api.guard import GENERATING, PAGES, guarded
from tests.unit.runtime.knobs.configs import vllm_config

CHAT = "/v1/chat/completions"


@dataclass
class House:
    """Keeps every request until `leave` is set; one that asks for trouble fails."""

    inside: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope.get("query_string") == b"trouble":
            raise RuntimeError("trouble")
        self.inside += 1
        if self.inside == 2:
            self.full.set()
        await self.leave.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def ask(app: ASGIApp, path: str = CHAT, query: bytes = b"", method: str = "POST") -> dict[str, Any]:
    """The start of the answer to one request."""
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
def two_inside(house: House, app: ASGIApp) -> Iterator[list[asyncio.Task[dict[str, Any]]]]:
    tasks = [asyncio.create_task(ask(app)) for _ in range(2)]
    try:
        yield tasks
    finally:
        house.leave.set()


def guard(house: House, closing: bool = False) -> ASGIApp:
    """For one running request and one in the queue."""
    limits = {"maxNumSeqs": 1, "maxNumBatchedTokens": 4096}
    config = vllm_config(limits=limits, serving={"maxQueuedRequests": 1})
    return guarded(house, config, RequestMetrics(CollectorRegistry()), lambda: closing)


async def test_full_house_answers_429_and_when_to_come_again() -> None:
    house = House()
    app = guard(house)
    with two_inside(house, app):
        await house.full.wait()
        answer = await ask(app)
        assert answer["status"] == 429
        assert b"retry-after" in dict(answer["headers"])


async def test_those_inside_are_answered() -> None:
    house = House()
    with two_inside(house, guard(house)) as inside:
        await house.full.wait()
    assert [(await each)["status"] for each in inside] == [200, 200]


async def test_who_leaves_makes_room() -> None:
    house = House()
    app = guard(house)
    with two_inside(house, app) as inside:
        await house.full.wait()
    await asyncio.gather(*inside)
    assert (await ask(app))["status"] == 200


async def test_who_goes_away_in_the_middle_makes_room() -> None:
    house = House()
    app = guard(house)
    with two_inside(house, app) as inside:
        await house.full.wait()
        inside[0].cancel()
        await asyncio.wait(inside[:1])
        house.leave.set()
        assert (await ask(app))["status"] == 200


async def test_a_request_that_fails_gives_its_place_back() -> None:
    house = House()
    app = guard(house)
    house.leave.set()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="trouble"):
            await ask(app, query=b"trouble")
    assert (await ask(app))["status"] == 200


@pytest.mark.parametrize("path", sorted(GENERATING))
async def test_every_path_that_makes_the_engine_work_is_counted(path: str) -> None:
    house = House()
    app = guard(house)
    with two_inside(house, app):
        await house.full.wait()
        assert (await ask(app, path))["status"] == 429


async def test_other_paths_are_answered_in_a_full_house() -> None:
    house = House()
    app = guard(house)
    with two_inside(house, app):
        await house.full.wait()
        house.leave.set()
        assert (await ask(app, "/v1/models", method="GET"))["status"] == 200


async def test_while_closing_every_answer_sends_the_client_elsewhere() -> None:
    house = House()
    house.leave.set()
    assert (b"connection", b"close") in (await ask(guard(house, closing=True)))["headers"]


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
async def test_route_that_is_not_listed_reaches_nothing(path: str, method: str) -> None:
    house = House()
    assert (await ask(guard(house), path, method=method))["status"] == 404
    assert house.inside == 0


@pytest.mark.parametrize(
    ("path", "method"), [(CHAT, "GET"), (CHAT, "PUT"), ("/v1/models", "POST"), ("/health", "HEAD")]
)
async def test_method_that_is_not_listed_reaches_nothing(path: str, method: str) -> None:
    house = House()
    answer = await ask(guard(house), path, method=method)
    assert (answer["status"], house.inside) == (405, 0)
    assert dict(answer["headers"])[b"allow"] == (b"POST" if path == CHAT else b"GET")


def test_page_names_every_path_that_is_let_through() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "openai-api.md").read_text()
    assert {path for path in GENERATING | PAGES if not re.search(rf"[` ]{re.escape(path)}`", page)} == set()
