"""The model port of a resource with an API key."""

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
from gaudi_runtime.http.openai_api.api_key import ApiKeyMiddleware, read_api_key
from gaudi_runtime.http.openai_api.guard import add_guard
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served

KEY = "sk-secret"


@pytest_asyncio.fixture
async def protected(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A model port that requires KEY."""
    monkeypatch.setenv("VLLM_API_KEY", f"{KEY}\n")
    async with served(sim_config()) as running:
        yield running


async def test_wrong_key_raises_the_clients_authentication_error(protected: Served) -> None:
    with pytest.raises(AuthenticationError) as refused:
        await protected.openai.models.list()
    assert refused.value.status_code == 401
    assert refused.value.code == "invalid_api_key"
    assert protected.metric("gaudi_requests_total", endpoint="/v1/models", code="401") == 1


async def test_answer_never_contains_the_key(protected: Served) -> None:
    answer = await protected.http.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert KEY not in answer.text
    assert "wrong" not in answer.text


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic c2s=", f"Basic {KEY}", KEY, f"Bear {KEY}", f"Bearers {KEY}", f"Bearex {KEY}"],
)
async def test_other_credentials_than_a_bearer_token_are_refused(protected: Served, header: str) -> None:
    answer = await protected.http.get("/v1/models", headers={"authorization": header.encode()})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "key", [f"{KEY}x", KEY[:-1], f"{KEY[:-1]}x", f"x{KEY[1:]}", KEY[1:], KEY.upper(), f"{KEY} {KEY}"]
)
async def test_similar_key_is_refused(protected: Served, key: str) -> None:
    answer = await protected.http.get("/v1/models", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 401


@pytest.mark.parametrize("header", [f"bearer {KEY}", f"Bearer  {KEY}"])
async def test_bearer_scheme_is_case_insensitive(protected: Served, header: str) -> None:
    assert (await protected.http.get("/v1/models", headers={"authorization": header})).status_code == 200


async def test_refusal_names_the_required_header(protected: Served) -> None:
    answer = await protected.http.get("/v1/models")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"] == {
        "message": "Send the API key of this server as a bearer token: Authorization: Bearer KEY.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }


async def test_unknown_path_requires_the_key(protected: Served) -> None:
    assert (await protected.http.get("/docs")).status_code == 401


async def test_probe_needs_no_key(protected: Served) -> None:
    assert (await protected.http.get("/health")).status_code == 200


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

    await ApiKeyMiddleware(never, KEY)({"type": "websocket", "path": "/v1/realtime", "headers": []}, nothing, keep)
    assert said == [{"type": "websocket.close", "code": 1008}]


async def test_lifespan_events_require_no_key() -> None:
    begun: list[str] = []

    async def keep(message: Message) -> None:
        raise AssertionError("no request is refused")

    async def nothing() -> Message:
        raise AssertionError("nothing is read")

    async def engine_app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["type"])

    await ApiKeyMiddleware(engine_app, KEY)({"type": "lifespan"}, nothing, keep)
    assert begun == ["lifespan"]


async def test_key_also_protects_the_application_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def engine_app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("theirs")(scope, receive, send)

    monkeypatch.setenv("VLLM_API_KEY", KEY)
    app = add_guard(engine_app, sim_config(), RequestMetrics(CollectorRegistry()), lambda: False)
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://pod") as client:
        assert (await client.post("/v1/embeddings", json={})).status_code == 401
        key = {"authorization": f"Bearer {KEY}"}
        assert (await client.post("/v1/embeddings", json={}, headers=key)).text == "theirs"


def test_key_is_read_without_its_newline() -> None:
    assert read_api_key({"VLLM_API_KEY": "sk-a\n"}) == "sk-a"


@pytest.mark.parametrize("value", ["", " \n", "\t"])
def test_blank_key_is_refused(value: str) -> None:
    wrong = r"^The API key from spec\.server\.apiKeySecretRef \(VLLM_API_KEY\) is blank, .* remove apiKeySecretRef\.$"
    with pytest.raises(ApiKeyBlank, match=wrong):
        read_api_key({"VLLM_API_KEY": value})


def test_no_key_is_required_if_none_is_configured() -> None:
    assert read_api_key({}) is None


async def test_path_with_the_prefix_of_a_probe_needs_the_key(protected: Served) -> None:
    assert (await protected.http.get("/healthx")).status_code == 401
