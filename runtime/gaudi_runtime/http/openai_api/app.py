"""The routes of the model port."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import TokenEngine
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.answer import (
    ChatFormat,
    Envelope,
    EventStream,
    Format,
    TextFormat,
    collect_answer,
    stream_events,
)
from gaudi_runtime.http.openai_api.errors import CLIENT_WENT_AWAY, ERROR_HANDLERS, InvalidRequest, UnknownModel
from gaudi_runtime.http.openai_api.generation import Choice, Generation, Usage
from gaudi_runtime.http.openai_api.guard import add_guard
from gaudi_runtime.http.openai_api.requests import ChatRequest, CompletionRequest, GenerationRequest, read_body
from gaudi_runtime.http.openai_api.tokenizing import RequestTokenizer
from gaudi_runtime.http.server import cancel_on_disconnect, get_route

DEFAULT_COMPLETION_TOKENS = 16


class Api:
    """The routes of the OpenAI API for one engine."""

    def __init__(self, engine: TokenEngine, config: RuntimeConfig, metrics: RequestMetrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._served_names = config.model.served_names
        self._limits = config.limits
        self._created = int(time.time())
        self._tokenizer = RequestTokenizer(engine.tokenizer, config.limits.max_model_len)

    async def list_models(self, _: Request) -> Response:
        """Answer GET /v1/models with the served names, which all refer to one model."""
        return JSONResponse({"object": "list", "data": [self._model_object(name) for name in self._served_names]})

    async def retrieve_model(self, request: Request) -> Response:
        """Answer GET /v1/models/NAME for one served name."""
        return JSONResponse(self._model_object(request.path_params["name"]))

    async def complete(self, request: Request) -> Response:
        """Answer POST /v1/completions."""
        body = await read_body(request, CompletionRequest)
        self._check_model(body.model)
        echoes = _echo_texts(body)
        prompts = await self._tokenizer.encode_prompts(body.prompts())
        max_tokens = body.max_tokens or DEFAULT_COMPLETION_TOKENS
        choices = [
            Choice(prompt_index * body.n + index, prompt, body.sampling_params(index, max_tokens), echo)
            for prompt_index, (prompt, echo) in enumerate(zip(prompts, echoes, strict=True))
            for index in range(body.n)
        ]
        return await self._generate_answer(request, body, TextFormat(), choices, prompts)

    async def chat(self, request: Request) -> Response:
        """Answer POST /v1/chat/completions."""
        body = await read_body(request, ChatRequest)
        self._check_model(body.model)
        prompt = await self._tokenizer.encode_chat([message.template_message() for message in body.messages])
        max_tokens = body.max_completion_tokens or body.max_tokens or self._most_answer_tokens(len(prompt))
        choices = [Choice(index, prompt, body.sampling_params(index, max_tokens)) for index in range(body.n)]
        return await self._generate_answer(request, body, ChatFormat(), choices, [prompt])

    async def _generate_answer(
        self,
        request: Request,
        body: GenerationRequest,
        answer_format: Format,
        choices: Sequence[Choice],
        prompts: Sequence[Sequence[int]],
    ) -> Response:
        for choice in choices:
            reason = self._engine.why_not_admissible(len(choice.prompt_token_ids), choice.sampling.max_tokens)
            if reason is not None:
                raise InvalidRequest(reason, code="context_length_exceeded")
        usage = Usage(sum(len(prompt) for prompt in prompts))
        generation = Generation(self._engine, choices, usage, self._metrics)
        request.state.model, request.state.generation = body.model, generation  # for its trace
        envelope = Envelope(answer_format, body.model)
        if body.stream:
            return EventStream(stream_events(generation, envelope, body.includes_usage))
        answer = await cancel_on_disconnect(request, collect_answer(generation, envelope))
        return Response(status_code=CLIENT_WENT_AWAY) if answer is None else JSONResponse(answer)

    def _model_object(self, name: str) -> dict[str, Any]:
        self._check_model(name)
        return {"id": name, "object": "model", "created": self._created, "owned_by": "gaudi-runtime"}

    def _most_answer_tokens(self, prompt_tokens: int) -> int:
        """Return the most tokens of an answer to a request without a limit, by model length and KV cache.

        The result is at least 1.
        """
        cache_tokens = self._engine.current_load().total_blocks * self._limits.block_size
        return max(1, min(self._limits.max_model_len, cache_tokens) - prompt_tokens)

    def _check_model(self, name: str) -> None:
        if name not in self._served_names:
            served_names = ", ".join(self._served_names)
            raise UnknownModel(
                f"Model {name} does not exist on this server. Use one of: {served_names}.", "model", "model_not_found"
            )


def _echo_texts(body: CompletionRequest) -> list[str]:
    prompts = body.prompts()
    if not body.echo:
        return [""] * len(prompts)
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) < len(prompts):
        raise InvalidRequest("echo needs prompts as text, not as token ids.", "echo")
    return texts


def openai_app(
    engine: TokenEngine,
    config: RuntimeConfig,
    metrics: RequestMetrics,
    is_closing: Callable[[], bool],
) -> ASGIApp:
    """Return the application with the routes of the model port."""
    api = Api(engine, config, metrics)
    routes = [
        get_route("/v1/models", api.list_models),
        get_route("/v1/models/{name:path}", api.retrieve_model),
        get_route("/health", _health),
        Route("/v1/completions", api.complete, methods=["POST"]),
        Route("/v1/chat/completions", api.chat, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers=ERROR_HANDLERS)
    return add_guard(app, config, metrics, is_closing)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})
