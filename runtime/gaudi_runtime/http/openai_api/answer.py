"""Conversion of a Generation to one JSON answer or a stream of server-sent events."""

import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from starlette.responses import StreamingResponse
from starlette.types import Send

from gaudi_runtime.http.openai_api.errors import error_body
from gaudi_runtime.http.openai_api.generation import Generation

log = logging.getLogger(__name__)


class TextFormat:
    """The form of answers to POST /v1/completions."""

    prefix, whole_object, chunk_object = "cmpl", "text_completion", "text_completion"

    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return the choice in the first chunk of a stream; None if this format has no opening chunk."""
        return None

    def delta_choice(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        """Return the choice with one more piece of text."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}

    def full_choice(self, index: int, text: str, finish_reason: str) -> dict[str, Any]:
        """Return the choice of a complete answer."""
        return self.delta_choice(index, text, finish_reason)


class ChatFormat:
    """The form of answers to POST /v1/chat/completions."""

    prefix, whole_object, chunk_object = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def opening_choice(self, index: int) -> dict[str, Any] | None:
        """Return the choice in the first chunk of a stream, which contains the role."""
        return _chat_choice(index, {"delta": {"role": "assistant", "content": ""}}, None)

    def delta_choice(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        """Return the choice with one more piece of text."""
        return _chat_choice(index, {"delta": {"content": text} if text else {}}, finish_reason)

    def full_choice(self, index: int, text: str, finish_reason: str) -> dict[str, Any]:
        """Return the choice of a complete answer."""
        return _chat_choice(index, {"message": {"role": "assistant", "content": text}}, finish_reason)


Format = TextFormat | ChatFormat


def _chat_choice(index: int, content: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, **content, "logprobs": None, "finish_reason": finish_reason}


class Envelope:
    """The common fields of all chunks in one answer."""

    def __init__(self, answer_format: Format, model: str) -> None:
        self.answer_format = answer_format
        self._fields = {"id": f"{answer_format.prefix}-{uuid4().hex}", "created": int(time.time()), "model": model}

    def full_answer(self, choices: list[dict[str, Any]], usage: dict[str, int]) -> dict[str, Any]:
        """Return the body of an answer that is not streamed."""
        return {**self._fields, "object": self.answer_format.whole_object, "choices": choices, "usage": usage}

    def chunk(self, *choices: dict[str, Any], **usage: dict[str, int] | None) -> dict[str, Any]:
        """Return one chunk of a stream, with `usage` only if the client requested it."""
        return {**self._fields, "object": self.answer_format.chunk_object, "choices": list(choices), **usage}


class EventStream(StreamingResponse):
    """An answer as server-sent events. Its end always cancels its generation."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send the events."""
        # The events are closed here. Otherwise a cancelled send would leave the generator and its KV blocks to the
        # garbage collector.
        async with aclosing(self._events):
            await super().stream_response(send)


async def collect_answer(generation: Generation, envelope: Envelope) -> dict[str, Any]:
    """Wait for every choice and return the body of the whole answer."""
    texts = {choice.index: "" for choice in generation.choices}
    reasons = dict.fromkeys(texts, "stop")
    async with aclosing(generation.stream_pieces()) as pieces:
        async for index, chunk in pieces:
            texts[index] += chunk.text
            reasons[index] = chunk.finish_reason or reasons[index]
    choices = [envelope.answer_format.full_choice(index, text, reasons[index]) for index, text in texts.items()]
    return envelope.full_answer(choices, generation.usage.body())


async def stream_events(generation: Generation, envelope: Envelope, include_usage: bool) -> AsyncGenerator[bytes, None]:
    """Yield the events of a streamed answer. The last event is an error if the engine fails after the first event."""
    usage: dict[str, dict[str, int] | None] = {"usage": None} if include_usage else {}
    try:
        for choice in generation.choices:
            if (opening_choice := envelope.answer_format.opening_choice(choice.index)) is not None:
                yield _encode_event(envelope.chunk(opening_choice, **usage))
        async with aclosing(generation.stream_pieces()) as pieces:
            async for index, chunk in pieces:
                delta_choice = envelope.answer_format.delta_choice(index, chunk.text, chunk.finish_reason)
                yield _encode_event(envelope.chunk(delta_choice, **usage))
    except Exception:
        log.exception("A streamed answer failed after its first event.")
        generation.is_broken = True  # for its trace
        yield _encode_event(
            error_body("The server failed during this answer. The log of the server has the reason.", "server_error")
        )
        return
    if include_usage:
        yield _encode_event(envelope.chunk(usage=generation.usage.body()))
    yield b"data: [DONE]\n\n"


def _encode_event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
