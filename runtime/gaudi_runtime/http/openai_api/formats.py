"""The two shapes of an answer, text completion and chat completion: pure dictionaries, whole or in chunks."""

import time
from typing import Any
from uuid import uuid4


class TextFormat:
    """POST /v1/completions."""

    prefix, whole_object, chunk_object = "cmpl", "text_completion", "text_completion"

    def opening(self, index: int) -> dict[str, Any] | None:
        """The choice of a stream's first chunk, if this format has one."""
        return None

    def delta(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        """The choice of one more piece of text."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}

    def whole(self, index: int, text: str, finish_reason: str) -> dict[str, Any]:
        """The choice of a whole answer."""
        return self.delta(index, text, finish_reason)


class ChatFormat:
    """POST /v1/chat/completions."""

    prefix, whole_object, chunk_object = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def opening(self, index: int) -> dict[str, Any] | None:
        """The choice of a stream's first chunk: who speaks."""
        return _chat_choice(index, {"delta": {"role": "assistant", "content": ""}}, None)

    def delta(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        """The choice of one more piece of text."""
        return _chat_choice(index, {"delta": {"content": text} if text else {}}, finish_reason)

    def whole(self, index: int, text: str, finish_reason: str) -> dict[str, Any]:
        """The choice of a whole answer."""
        return _chat_choice(index, {"message": {"role": "assistant", "content": text}}, finish_reason)


Format = TextFormat | ChatFormat


def _chat_choice(index: int, content: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, **content, "logprobs": None, "finish_reason": finish_reason}


class Envelope:
    """What the chunks of one answer have in common."""

    def __init__(self, shape: Format, model: str) -> None:
        self.shape = shape
        self._common = {"id": f"{shape.prefix}-{uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, choices: list[dict[str, Any]], usage: dict[str, int]) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        return {**self._common, "object": self.shape.whole_object, "choices": choices, "usage": usage}

    def chunk(self, *choices: dict[str, Any], **usage: dict[str, int] | None) -> dict[str, Any]:
        """One chunk of a stream; `usage` is named only when the client asked for it."""
        return {**self._common, "object": self.shape.chunk_object, "choices": list(choices), **usage}
