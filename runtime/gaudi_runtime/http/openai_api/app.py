"""The routes of the model port."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.protocol import TokenEngine
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.answer import (
    ChatFormat,
    Envelope,
    EventStream,
    Format,
    TextFormat,
    events,
    whole_answer,
)
from gaudi_runtime.http.openai_api.api_key import behind_key
from gaudi_runtime.http.openai_api.errors import ERROR_HANDLERS, InvalidRequest, NotFound
from gaudi_runtime.http.openai_api.generation import Choice, Generation, Usage
from gaudi_runtime.http.openai_api.guard import Admission, Edge
from gaudi_runtime.http.openai_api.requests import ChatRequest, CompletionRequest, GenerationRequest, read_body
from gaudi_runtime.http.server import get, unless_disconnected

DEFAULT_COMPLETION_TOKENS = 16
CLIENT_WENT_AWAY = 499

T = TypeVar("T")


class Api:
    """One engine, spoken to in OpenAI's language."""

    def __init__(self, engine: TokenEngine, config: RuntimeConfig, metrics: RequestMetrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._names = config.model.served_names
        self._limits = config.limits
        self._admission = Admission(config.limits.max_num_seqs, config.serving.max_queued_requests)
        self._created = int(time.time())
        # One thread: tokenizers are not safe to share, and a long prompt must not stop the event loop.
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    async def models(self, _: Request) -> Response:
        """Answer GET /v1/models: the served names, all of one model."""
        return JSONResponse({"object": "list", "data": [self._model(name) for name in self._names]})

    async def model(self, request: Request) -> Response:
        """Answer GET of one served name."""
        return JSONResponse(self._model(request.path_params["name"]))

    async def complete(self, request: Request) -> Response:
        """Answer POST /v1/completions."""
        body = await read_body(request, CompletionRequest)
        self._check_model(body.model)
        prompts = [
            await self._tokenized(self._engine.tokenizer.encode, prompt) if isinstance(prompt, str) else prompt
            for prompt in body.prompts()
        ]
        max_tokens = body.max_tokens or DEFAULT_COMPLETION_TOKENS
        echoes = _echoes(body)
        choices = [
            Choice(at * body.n + choice, prompt, body.sampling(choice, max_tokens), echoes[at])
            for at, prompt in enumerate(prompts)
            for choice in range(body.n)
        ]
        return await self._answer(request, body, TextFormat(), choices, prompts)

    async def chat(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        body = await read_body(request, ChatRequest)
        self._check_model(body.model)
        messages = [message.for_template() for message in body.messages]
        try:
            prompt = await self._tokenized(self._engine.tokenizer.apply_chat_template, messages)
        except ValueError as error:
            raise InvalidRequest(f"The chat template refuses the messages: {error}", "messages") from error
        max_tokens = body.max_completion_tokens or body.max_tokens or self._room(len(prompt))
        choices = [Choice(choice, prompt, body.sampling(choice, max_tokens)) for choice in range(body.n)]
        return await self._answer(request, body, ChatFormat(), choices, [prompt])

    async def _answer(
        self,
        request: Request,
        body: GenerationRequest,
        shape: Format,
        choices: Sequence[Choice],
        prompts: Sequence[Sequence[int]],
    ) -> Response:
        for choice in choices:
            why_not = self._engine.admissible(len(choice.prompt), choice.sampling.max_tokens)
            if why_not is not None:
                raise InvalidRequest(why_not, code="context_length_exceeded")
        ticket = self._admission.admit(len(choices))
        usage = Usage(sum(len(prompt) for prompt in prompts))
        generation = Generation(self._engine, choices, usage, self._metrics)
        envelope = Envelope(shape, body.model)
        if body.stream:
            return EventStream(events(generation, envelope, body.includes_usage), ticket)
        with ticket:
            answer = await unless_disconnected(request, whole_answer(generation, envelope))
        return Response(status_code=CLIENT_WENT_AWAY) if answer is None else JSONResponse(answer)

    def _model(self, name: str) -> dict[str, Any]:
        self._check_model(name)
        return {"id": name, "object": "model", "created": self._created, "owned_by": "gaudi-runtime"}

    def _room(self, prompt_tokens: int) -> int:
        """Tokens that an answer without a limit may have: what model and KV cache leave, and at least one."""
        cache = self._engine.load_now().total_blocks * self._limits.block_size
        return max(1, min(self._limits.max_model_len, cache) - prompt_tokens)

    def _check_model(self, name: str) -> None:
        if name not in self._names:
            served = ", ".join(self._names)
            raise NotFound(f"Model {name} is not served here; served: {served}.", "model", "model_not_found")

    async def _tokenized(self, tokenize: Callable[[T], list[int]], text: T) -> list[int]:
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, tokenize, text)


def _echoes(body: CompletionRequest) -> list[str]:
    prompts = body.prompts()
    if not body.echo:
        return [""] * len(prompts)
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) < len(prompts):
        raise InvalidRequest("echo needs prompts as text, not as token ids.", "echo")
    return texts


def openai_app(
    engine: TokenEngine, config: RuntimeConfig, metrics: RequestMetrics, closing: Callable[[], bool]
) -> ASGIApp:
    """The application of the model port."""
    api = Api(engine, config, metrics)
    routes = [
        get("/v1/models", api.models),
        get("/v1/models/{name:path}", api.model),
        get("/health", _health),
        Route("/v1/completions", api.complete, methods=["POST"]),
        Route("/v1/chat/completions", api.chat, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers=ERROR_HANDLERS)
    return Edge(behind_key(app), closing=closing, metrics=metrics)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})
