"""The errors in vLLM's streams, in vLLM's own words, are counted as failed answers."""

import warnings
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest

from gaudi_runtime.contract.report import RequestCountsReport
from tests.unit.runtime.http.openai_api.test_broken_streams import ANSWERED, DONE, FAILED, StreamingApp, counts_of

CHAT = ("openai.chat_completion", "OpenAIServingChat")
COMPLETION = ("openai.completion", "OpenAIServingCompletion")
MESSAGES = ("anthropic", "AnthropicServingMessages")


def serving(package: str, name: str) -> Any:
    """Return vLLM's class of this name, without the state of an engine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # imports of vLLM warn
        found = getattr(import_module(f"vllm.entrypoints.{package}.serving"), name)
    return found.__new__(found)


def event_of(vllm_class: tuple[str, str], error: Exception) -> str:
    """Return the event by which vLLM reports `error` in a stream."""
    return f"data: {serving(*vllm_class).create_streaming_error_response(error)}\n\n"


@pytest.mark.parametrize("vllm_class", [CHAT, COMPLETION])
@pytest.mark.parametrize(("error", "counts"), [(RuntimeError("died"), FAILED), (ValueError("wrong"), ANSWERED)])
async def test_server_error_of_a_stream_is_a_failed_answer(
    vllm_class: tuple[str, str], error: Exception, counts: RequestCountsReport
) -> None:
    assert await counts_of(StreamingApp(event_of(vllm_class, error).encode(), DONE)) == counts


async def test_error_of_a_messages_stream_is_a_failed_answer() -> None:
    async def chat_stream() -> AsyncIterator[str]:
        yield event_of(CHAT, RuntimeError("died"))

    parts = [part.encode() async for part in serving(*MESSAGES).message_stream_converter(chat_stream())]
    assert await counts_of(StreamingApp(*parts), "/v1/messages") == FAILED
