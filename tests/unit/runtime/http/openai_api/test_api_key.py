"""A model port whose resource names an API key."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from httpx import ASGITransport, AsyncClient
from openai import AuthenticationError
from prometheus_client import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from gaudi_runtime.errors import ApiKeyBlank
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.api_key import KeyRequired, asked_key
from gaudi_runtime.http.openai_api.guard import guarded
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served

KEY = "sk-secret"


@pytest_asyncio.fixture
async def locked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A model port that asks for KEY."""
    monkeypatch.setenv("VLLM_API_KEY", f"{KEY}\n")
    async with served(sim_config()) as running:
        yield running


async def test_client_with_another_key_is_refused_as_clients_know_it(locked: Served) -> None:
    with pytest.raises(AuthenticationError) as refused:
        await locked.openai.models.list()
    assert refused.value.status_code == 401
    assert refused.value.code == "invalid_api_key"
    assert locked.metric("gaudi_requests_total", endpoint="/v1/models", code="401") == 1


async def test_key_never_stands_in_the_answer(locked: Served) -> None:
    answer = await locked.http.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert KEY not in answer.text
    assert "wrong" not in answer.text


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic c2s=", f"Basic {KEY}", KEY, f"Bear {KEY}", f"Bearers {KEY}", f"Bearex {KEY}"],
)
async def test_anything_but_a_bearer_token_is_refused(locked: Served, header: str) -> None:
    answer = await locked.http.get("/v1/models", headers={"authorization": header.encode()})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "key", [f"{KEY}x", KEY[:-1], f"{KEY[:-1]}x", f"x{KEY[1:]}", KEY[1:], KEY.upper(), f"{KEY} {KEY}"]
)
async def test_key_that_differs_in_one_place_is_refused(locked: Served, key: str) -> None:
    answer = await locked.http.get("/v1/models", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 401


@pytest.mark.parametrize("header", [f"bearer {KEY}", f"Bearer  {KEY}"])
async def test_bearer_token_may_be_written_as_the_standard_allows(locked: Served, header: str) -> None:
    assert (await locked.http.get("/v1/models", headers={"authorization": header})).status_code == 200


async def test_refusal_says_what_to_send(locked: Served) -> None:
    answer = await locked.http.get("/v1/models")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"] == {
        "message": "Send the API key of this server as a bearer token: Authorization: Bearer KEY.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }


async def test_path_that_does_not_exist_needs_the_key_too(locked: Served) -> None:
    assert (await locked.http.get("/docs")).status_code == 401


async def test_probe_needs_no_key(locked: Served) -> None:
    assert (await locked.http.get("/health")).status_code == 200


async def test_client_with_the_key_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-key")
    async with served(sim_config()) as running:
        client = running.openai.with_options(api_key="sk-key")
        assert [model.id for model in (await client.models.list()).data]


async def test_websocket_without_the_key_is_closed_before_it_opens() -> None:
    said: list[Message] = []

    async def keep(message: Message) -> None:
        said.append(message)

    async def nothing() -> Message:
        raise AssertionError("nothing may be read of a client without the key")

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nothing may reach the application")

    await KeyRequired(never, KEY)({"type": "websocket", "path": "/v1/realtime", "headers": []}, nothing, keep)
    assert said == [{"type": "websocket.close", "code": 1008}]


async def test_start_of_the_application_needs_no_key() -> None:
    begun: list[str] = []

    async def keep(message: Message) -> None:
        raise AssertionError("nobody is refused")

    async def nothing() -> Message:
        raise AssertionError("nothing is read")

    async def theirs(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["type"])

    await KeyRequired(theirs, KEY)({"type": "lifespan"}, nothing, keep)
    assert begun == ["lifespan"]


async def test_application_that_an_engine_brings_is_behind_the_key_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def theirs(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("theirs")(scope, receive, send)

    monkeypatch.setenv("VLLM_API_KEY", KEY)
    app = guarded(theirs, sim_config(), RequestMetrics(CollectorRegistry()), lambda: False)
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://pod") as client:
        assert (await client.post("/v1/embeddings", json={})).status_code == 401
        key = {"authorization": f"Bearer {KEY}"}
        assert (await client.post("/v1/embeddings", json={}, headers=key)).text == "theirs"


def test_key_is_read_without_its_line_end() -> None:
    assert asked_key({"VLLM_API_KEY": "sk-a\n"}) == "sk-a"


@pytest.mark.parametrize("value", ["", " \n", "\t"])
def test_blank_key_is_refused(value: str) -> None:
    wrong = (
        r"^The API key of this server is blank \(VLLM_API_KEY, .*\), so anyone could .* leave apiKeySecretRef out\.$"
    )
    with pytest.raises(ApiKeyBlank, match=wrong):
        asked_key({"VLLM_API_KEY": value})


def test_port_without_a_key_asks_for_none() -> None:
    assert asked_key({}) is None


async def test_path_that_only_begins_like_a_probe_needs_the_key(locked: Served) -> None:
    assert (await locked.http.get("/healthx")).status_code == 401
