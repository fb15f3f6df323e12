"""The API key that requests need if the resource references a key (docs/reference/openai-api.md, API key)."""

import os
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.errors import ApiKeyBlank
from gaudi_runtime.http.openai_api.errors import openai_error_body

POLICY_VIOLATION = 1008
"""The close code of RFC 6455; before a WebSocket is accepted, the server answers 403."""
OPEN = frozenset({"/health"})
SENTENCE = "Send the API key of this server as a bearer token: Authorization: Bearer KEY."


def read_api_key(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the API key from the environment variables, or None if no key is set. Raises ApiKeyBlank."""
    value = environment.get(API_KEY_VARIABLE)
    if value is None:
        return None
    if key := value.strip():  # a Secret made from a file often ends in a line break
        return key
    # A blank key is an error: a user who configures a key does not want a public server.
    raise ApiKeyBlank(
        f"The API key from spec.server.apiKeySecretRef ({API_KEY_VARIABLE}) is blank, so anyone could use the model. "
        "Write a key into the Secret and restart the pods, or remove apiKeySecretRef."
    )


class ApiKeyMiddleware:
    """ASGI middleware that answers requests without the key with status 401. Probes need no key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._digest = app, _digest(key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan" or scope["path"] in OPEN or self._has_key(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        body = openai_error_body(SENTENCE, "invalid_request_error", code="invalid_api_key")
        await JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _has_key(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # Digests have a fixed length and are compared in constant time. So the response time reveals nothing about the
        # key.
        return compare_digest(_digest(token.strip()), self._digest) and scheme.lower() == "bearer"


def require_api_key(app: ASGIApp) -> ASGIApp:
    """Return `app` behind the check of the API key, if the environment has a key."""
    key = read_api_key()
    return app if key is None else ApiKeyMiddleware(app, key)


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
