"""The paths of the model port: the allowed paths with their methods, and the paths that use the engine."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gaudi_runtime.http.openai_api.errors import openai_error_body

GENERATING = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/v2/embed",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/tokenize",
        "/detokenize",
        "/pooling",
        "/classify",
        "/score",
        "/v1/score",
        "/rerank",
        "/v1/rerank",
        "/v2/rerank",
    }
)
"""Paths of requests that make the engine work: each is a POST, takes a place, and is counted."""
PAGES = frozenset({"/v1/models", "/health", "/version"})
"""Paths that need no engine: each is a GET."""
MODELS = "/v1/models/"
"""The prefix of the paths of single models."""


class AllowedPaths:
    """ASGI middleware that passes only listed paths, even if a later release of the application adds routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return  # WebSockets are not supported
        method = _allowed_method(scope["path"])
        if method is None:
            await _answer_not_found(scope, receive, send)
            return
        if scope["method"] in (method, "OPTIONS"):  # browsers send OPTIONS first
            await self._app(scope, receive, send)
            return
        body = openai_error_body(f"{scope['path']} requires {method}.", "invalid_request_error")
        await JSONResponse(body, 405, {"Allow": method})(scope, receive, send)


def path_uses_engine(scope: Scope) -> bool:
    """Return True if the path and the method of this request use the engine."""
    return scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in GENERATING


def _allowed_method(path: str) -> str | None:
    """Return the method of a path; None if the path is not listed."""
    if path in GENERATING:
        return "POST"
    return "GET" if path in PAGES or path.startswith(MODELS) else None


async def _answer_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    sentence = 'This path does not exist. The page "OpenAI API" of the manual lists the paths of this server.'
    await JSONResponse(openai_error_body(sentence, "invalid_request_error"), 404)(scope, receive, send)
