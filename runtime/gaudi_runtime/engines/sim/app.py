"""The OpenAI application of the sim engine: models, completions and chat. An answer echoes its prompt.

Each byte of the UTF-8 text is one token, so any text can be encoded, and the token counts are exact.
"""

import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal, cast
from uuid import uuid4

from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from gaudi_runtime.engines.sim.serving import SimServing
from gaudi_runtime.http.openai_api.errors import (
    CLIENT_WENT_AWAY,
    ApiError,
    InvalidRequest,
    UnknownModel,
    openai_error_body,
)
from gaudi_runtime.http.server import cancel_on_disconnect, get_server_route

log = logging.getLogger(__name__)

DEFAULT_COMPLETION_TOKENS = 16
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
TokenCount = Annotated[int, Field(ge=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)]


class SimMetrics:
    """The few series of vLLM that dashboards and alerts read."""

    def __init__(self) -> None:
        self.prompt_tokens = Counter("vllm:prompt_tokens", "Prompt tokens received.", registry=None)
        self.generated_tokens = Counter("vllm:generation_tokens", "Tokens generated.", registry=None)
        self.first_token_seconds = Histogram(
            "vllm:time_to_first_token_seconds", "Time from request to first token.", registry=None, buckets=SECONDS
        )

    def collectors(self) -> Sequence[Collector]:
        """Return the collectors of all series."""
        return self.prompt_tokens, self.generated_tokens, self.first_token_seconds


class _StreamOptions(BaseModel):
    """The field `stream_options` of a request."""

    include_usage: bool = False


class _SimMessage(BaseModel):
    """One text message of a chat."""

    role: str
    content: str


class _SimRequest(BaseModel):
    """The fields of a completion or a chat completion that the sim engine reads. It ignores all other fields."""

    model: str
    prompt: str | TokenIds = ""
    messages: tuple[_SimMessage, ...] = ()
    n: Literal[1] = 1
    max_tokens: TokenCount | None = None
    max_completion_tokens: TokenCount | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    ignore_eos: bool = False


class SimEventStream(StreamingResponse):
    """An answer as server-sent events. Its end cancels its generation, which frees the KV blocks."""

    async def stream_response(self, send: Send) -> None:
        """Send the events."""
        async with aclosing(cast("AsyncGenerator[bytes, None]", self.body_iterator)):
            await super().stream_response(send)


class SimApplication:
    """The routes of the sim engine."""

    def __init__(self, names: Sequence[str], serving: SimServing, metrics: SimMetrics) -> None:
        self._names, self._serving, self._metrics = names, serving, metrics
        self._created = int(time.time())

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            get_server_route("/v1/models", self._list_models),
            get_server_route("/v1/models/{name:path}", self._retrieve_model),
            get_server_route("/health", self._health),
            Route("/v1/completions", self._generate, methods=["POST"]),
            Route("/v1/chat/completions", self._generate, methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={ApiError: _handle_api_error, Exception: _handle_crash})

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _list_models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._describe_model(name) for name in self._names]})

    async def _retrieve_model(self, request: Request) -> Response:
        return JSONResponse(self._describe_model(request.path_params["name"]))

    async def _generate(self, request: Request) -> Response:
        try:
            body = _SimRequest.model_validate_json(await request.body())
        except ValidationError as error:
            item = error.errors()[0]
            field = ".".join(map(str, item["loc"]))
            raise InvalidRequest(f"{field or 'body'}: {item['msg']}.", field or None) from error
        self._describe_model(body.model)
        answer = _SimAnswer(body, request.url.path.endswith("/chat/completions"), self._serving, self._metrics)
        if body.stream:
            return SimEventStream(
                answer.events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
            )
        whole = await cancel_on_disconnect(request, answer.collect())
        return Response(status_code=CLIENT_WENT_AWAY) if whole is None else JSONResponse(whole)

    def _describe_model(self, name: str) -> dict[str, Any]:
        if name not in self._names:
            raise UnknownModel(
                f"Model {name} does not exist on this server. Use one of: {', '.join(self._names)}.",
                "model",
                "model_not_found",
            )
        return {"id": name, "object": "model", "created": self._created, "owned_by": "gaudi-runtime"}


class _SimAnswer:
    """One answer, whole or as events. Raises InvalidRequest if prompt and answer can never fit."""

    def __init__(self, body: _SimRequest, is_chat: bool, serving: SimServing, metrics: SimMetrics) -> None:
        self._body, self._is_chat, self._serving, self._metrics = body, is_chat, serving, metrics
        self._arrival_time = time.monotonic()
        lines = "".join(f"{message.role}: {message.content}\n" for message in body.messages)
        prompt = f"{lines}assistant:" if is_chat else body.prompt
        # A prompt needs at least one token, so an empty text becomes one space.
        self._prompt = (prompt.encode() if isinstance(prompt, str) else bytes(token % 256 for token in prompt)) or b" "
        default = serving.longest_answer(len(self._prompt)) if is_chat else DEFAULT_COMPLETION_TOKENS
        self._max_tokens = body.max_completion_tokens or body.max_tokens or default
        self._generated_tokens = 0
        if reason := serving.why_not_admissible(len(self._prompt), self._max_tokens):
            raise InvalidRequest(reason, code="context_length_exceeded")
        self._fields = {
            "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid4().hex}",
            "created": int(time.time()),
            "model": body.model,
        }

    async def collect(self) -> dict[str, Any]:
        """Return the body of the whole answer."""
        text, finish_reason = "", "stop"
        async with aclosing(self._pieces()) as pieces:
            async for piece, reason in pieces:
                text, finish_reason = text + piece, reason or finish_reason
        content = {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}
        kind = "chat.completion" if self._is_chat else "text_completion"
        return {**self._fields, "object": kind, "choices": [_choice(content, finish_reason)], "usage": self._usage()}

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events of a streamed answer. The last event is an error if the engine fails."""
        include_usage = self._body.stream_options is not None and self._body.stream_options.include_usage
        usage = {"usage": None} if include_usage else {}
        if self._is_chat:
            yield self._event([_choice({"delta": {"role": "assistant", "content": ""}}, None)], usage)
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece, reason in pieces:
                    content = {"delta": {"content": piece}} if self._is_chat else {"text": piece}
                    yield self._event([_choice(content, reason)], usage)
        except Exception:
            log.exception("A streamed answer failed after its first event.")
            yield _encode_event(openai_error_body("The server failed during this answer.", "server_error"))
            return
        if include_usage:
            yield self._event([], {"usage": self._usage()})
        yield b"data: [DONE]\n\n"

    async def _pieces(self) -> AsyncGenerator[tuple[str, str | None], None]:
        self._metrics.prompt_tokens.inc(len(self._prompt))
        async with aclosing(self._serving.stream(self._prompt, self._max_tokens, self._body.ignore_eos)) as pieces:
            async for piece in pieces:
                if not self._generated_tokens:
                    self._metrics.first_token_seconds.observe(time.monotonic() - self._arrival_time)
                self._generated_tokens += 1
                self._metrics.generated_tokens.inc()
                yield piece

    def _usage(self) -> dict[str, int]:
        prompt_tokens, generated_tokens = len(self._prompt), self._generated_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": generated_tokens,
            "total_tokens": prompt_tokens + generated_tokens,
        }

    def _event(self, choices: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]) -> bytes:
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        return _encode_event({**self._fields, "object": kind, "choices": choices, **usage})


def _choice(content: Mapping[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}


def _encode_event(body: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


async def _handle_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - Starlette calls this handler only for this class
    return JSONResponse(error.body(), error.status, error.headers)


async def _handle_crash(_: Request, __: Exception) -> Response:
    return JSONResponse(openai_error_body("The simulated engine failed.", "server_error"), 500)
