"""The key that requests must bring where the resource names one (docs/reference/openai-api.md, API key)."""

import os
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.errors import ApiKeyBlank
from gaudi_runtime.http.openai_api.errors import error_body

POLICY_VIOLATION = 1008
"""Of RFC 6455; before a connection is accepted the server answers 403."""
OPEN = frozenset({"/health"})
SENTENCE = "Send the API key of this server as a bearer token: Authorization: Bearer KEY."


def asked_key(environment: Mapping[str, str] = os.environ) -> str | None:
    """The key of the container's environment; None where it names none. Raises ApiKeyBlank."""
    value = environment.get(API_KEY_VARIABLE)
    if value is None:
        return None
    if key := value.strip():  # a Secret made from a file often ends with a line end
        return key
    # Whoever names a key does not want the model published without.
    raise ApiKeyBlank(
        f"The API key of this server is blank ({API_KEY_VARIABLE}, which spec.server.apiKeySecretRef fills), and "
        "anybody could use the model: write a key into the Secret and restart the pods, or leave apiKeySecretRef out."
    )


class KeyRequired:
    """ASGI middleware: a request without the key is answered with 401 and reaches nothing; probes need none."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._digest = app, _digest(key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan" or scope["path"] in OPEN or self._brings_key(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        body = error_body(SENTENCE, "invalid_request_error", code="invalid_api_key")
        await JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _brings_key(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        # Digests have one length, and are compared in one time: an answer tells nothing about the key.
        return compare_digest(_digest(token.strip()), self._digest) and kind.lower() == "bearer"


def behind_key(app: ASGIApp) -> ASGIApp:
    """`app` behind the key that the container's environment names, if it names one."""
    key = asked_key()
    return app if key is None else KeyRequired(app, key)


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
