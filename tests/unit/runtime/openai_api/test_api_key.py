"""A model port whose resource names an API key."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from openai import AsyncOpenAI, AuthenticationError

from gaudi_runtime.openai_api.api_key import asked_key
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served

KEY = "sk-secret"


@pytest_asyncio.fixture
async def locked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A model port that asks for KEY."""
    monkeypatch.setenv("VLLM_API_KEY", f"{KEY}\n")
    async with served(sim_config()) as running:
        yield running


async def test_client_with_another_key_is_refused_in_the_form_that_clients_know(locked: Served) -> None:
    with pytest.raises(AuthenticationError) as refused:
        await locked.openai.models.list()
    assert refused.value.status_code == 401
    assert refused.value.code == "invalid_api_key"
    assert locked.metric("gaudi_requests_total", endpoint="/v1/models", code="401") == 1


async def test_key_never_stands_in_the_answer(locked: Served) -> None:
    answer = await locked.http.get("/v1/models", headers={"authorization": "Bearer wrong"})
    assert KEY not in answer.text
    assert "wrong" not in answer.text


@pytest.mark.parametrize("header", ["", "Bearer", "Basic c2s=", f"Basic {KEY}", KEY])
async def test_anything_but_a_bearer_token_is_refused(locked: Served, header: str) -> None:
    answer = await locked.http.get("/v1/models", headers={"authorization": header.encode()})
    assert answer.status_code == 401


async def test_path_that_does_not_exist_needs_the_key_too(locked: Served) -> None:
    assert (await locked.http.get("/docs")).status_code == 401


async def test_probe_needs_no_key(locked: Served) -> None:
    assert (await locked.http.get("/health")).status_code == 200


async def test_client_with_the_key_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-key")
    async with served(sim_config()) as running:
        async with AsyncOpenAI(base_url=running.openai.base_url, api_key="sk-key", max_retries=0) as client:
            assert [model.id for model in (await client.models.list()).data]


@pytest.mark.parametrize(("value", "key"), [("sk-a\n", "sk-a"), ("", None), (" \n", None)])
def test_key_is_read_without_its_line_end(value: str, key: str | None) -> None:
    assert asked_key({"VLLM_API_KEY": value}) == key


def test_port_without_a_key_asks_for_none() -> None:
    assert asked_key({}) is None
