"""A full server reads no body. A request gets its places after its body is read and before it is tokenized."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from gaudi_runtime.engines.sim.serving import ByteTokenizer
from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded
from gaudi_runtime.http.openai_api.tokenizing import RequestTokenizer
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.http.openai_api.test_load import SLOW, endless_stream, until
from tests.unit.runtime.serving import Served, served

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n"


async def unfinished(api: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of a request without the body, and return the connection."""
    url = api.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(HEAD)
    return reader, writer


async def test_full_server_does_not_wait_for_a_body() -> None:
    full = sim_config(SLOW, max_num_seqs=1, serving={"max_queued_requests": 0})
    async with served(full) as api, asyncio.timeout(20):
        stream = await endless_stream(api)
        reader, writer = await unfinished(api)
        assert b" 429 " in await reader.readline()
        writer.close()
        await stream.close()


async def test_request_is_answered_while_a_body_is_incomplete() -> None:
    async with served(sim_config(max_num_seqs=1, serving={"max_queued_requests": 0})) as api, asyncio.timeout(20):
        _, writer = await unfinished(api)
        assert (await api.openai.completions.create(model="echo", prompt="a")).choices[0].text == "a"
        writer.close()
        await until(lambda: api.metric("gaudi_requests_total", endpoint="/v1/completions", code="499") == 1)


class BlockedTokenizer(ByteTokenizer):
    """A tokenizer that blocks until it is released."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()
        self.texts: list[str] = []

    def encode(self, text: str) -> list[int]:
        """Wait for the release, and return the bytes of the text."""
        self.texts.append(text)
        self.begun.set()
        self.end.wait(20)
        return super().encode(text)


async def test_request_with_more_choices_than_places_is_not_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def keep(_: ByteTokenizer, text: str) -> list[int]:
        texts.append(text)
        return [1]

    monkeypatch.setattr(ByteTokenizer, "encode", keep)
    async with served(sim_config(max_num_seqs=2, serving={"max_queued_requests": 0})) as api:
        answer = await api.http.post("/v1/completions", json={"model": "echo", "prompt": "many", "n": 3})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "n")
        assert (await api.http.post("/v1/completions", json={"model": "echo", "prompt": "few", "n": 2})).is_success
    assert texts == ["few"]


async def test_tokenizing_ends_at_its_timeout() -> None:
    tokenizer = BlockedTokenizer()
    slow, waiting = RequestTokenizer(tokenizer, 512, seconds=0.2), "does not wait for the first"
    try:
        with pytest.raises(Overloaded, match=r"not tokenized within 0 s\. Shorten the prompt, or try again later\.$"):
            await slow.encode_prompts(["long"])
        with pytest.raises(Overloaded) as refused:
            await slow.encode_prompts([waiting])
        assert refused.value.code == "tokenizing_too_slow"
    finally:
        tokenizer.end.set()
    assert await RequestTokenizer(ByteTokenizer(), 512).encode_prompts(["ab", [7]]) == [[97, 98], [7]]
    assert tokenizer.texts == ["long"], "what was given up before it began is not tokenized"


@pytest.mark.parametrize("prompts", [["x" * 65], ["x", "y" * 65]])
async def test_text_longer_than_the_model_length_is_not_tokenized(prompts: Sequence[str]) -> None:
    tokenizer = BlockedTokenizer()
    tokenizer.end.set()
    with pytest.raises(
        InvalidRequest, match=r"^The prompt has 65 characters, which cannot fit into the model length of 64 tokens"
    ) as refused:
        await RequestTokenizer(tokenizer, 64).encode_prompts(prompts)
    assert refused.value.code == "context_length_exceeded"
    assert tokenizer.texts == []


async def test_characters_of_all_messages_are_added() -> None:
    with pytest.raises(InvalidRequest, match=r"^The prompt has 66 characters"):
        await RequestTokenizer(ByteTokenizer(), 64).encode_chat([{"role": "user", "content": "x" * 33}] * 2)
