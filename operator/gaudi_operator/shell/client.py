"""The way to the API server: one small port of requests, and the border where its errors become ours.

`Cluster` is that port: the fence, and what an answer means. `Connection` carries requests by HTTP, and watches.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import load_incluster_config, load_kube_config

from gaudi_operator.errors import Forbidden, NotFound, NotLeader, OperatorError, Stalled, Transient, Waiting

REQUEST_SECONDS = 15.0
TERMINATING_SECONDS = 5.0
MOST_CONNECTIONS = 64
"""For requests, beside those that watches hold: more at once would only wait in the API server."""
SERVER_APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

Counted = Callable[[str, str, int], None]
"""Called after each answer with (verb, path, status code)."""


class Answer(NamedTuple):
    """What the API server said; `retry_after` is the header of that name."""

    status: int
    text: bytes
    retry_after: str | None = None


class Transport(Protocol):
    """Carries requests."""

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, seconds: float
    ) -> Answer:
        """One request and its answer. Raises aiohttp.ClientError, TimeoutError or OSError when there is none."""


_OBJECTS = msgspec.json.Decoder(dict[str, Any])
"""Reads in half the time that Python's own takes, and there is an answer to each of our writes."""


class Cluster:
    """Requests as this process's account."""

    def __init__(self, transport: Transport, counted: Counted) -> None:
        """`counted` is called after every request that was answered."""
        self._transport = transport
        self._counted = counted
        # Nobody else leads until an election says so: set by replica.py.
        self.may_write: Callable[[], bool] = lambda: True

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        fenced: bool = True,
        seconds: float = REQUEST_SECONDS,
    ) -> dict[str, Any]:
        """One request and its answer as an object.

        `fenced` writes leave only while this process is sure to lead. `seconds` for the whole of it.
        Raises OperatorError of the kind that the answer asks for.
        """
        # As late as possible: a reconcile that began under the lease may go on without it.
        if fenced and method in _WRITES and not self.may_write():
            raise NotLeader("NotLeader", f"{method} {path} is not sent: the lease is lost or too old.")
        asked = path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = await self._transport.send(method, asked, body, content_type, seconds)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Transient(
                "ApiServerUnreachable", f"{method} {path}: no answer ({error or type(error).__name__})."
            ) from error
        self._counted(method, path, answer.status)
        if answer.status >= 400:
            raise _error(method, path, answer)
        try:
            # A proxy or a login page answers 200 too.
            return _OBJECTS.decode(answer.text)
        except ValueError as error:
            raise Transient("NotTheApiServer", f"{method} {path}: the answer is not an object.") from error


class Connection:
    """Requests by HTTP. Use as an async context manager, in one event loop.

    Of the client library it takes what it knows of the way: kubeconfigs, credentials that are renewed, trust. Requests
    are aiohttp's own, from one pool of connections that are kept: what the library does around each costs as much.
    """

    def __init__(self, configuration: Configuration) -> None:
        """Nothing is sent yet."""
        self._configuration = configuration
        self._trust = RESTClientObject(configuration).ssl_context
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, kubeconfig: str | None) -> Self:
        """The cluster of `kubeconfig`, or the one that this pod runs in."""
        configuration = Configuration()
        if kubeconfig:
            await load_kube_config(kubeconfig, client_configuration=configuration, persist_config=False)
        else:
            load_incluster_config(configuration)
        return cls(configuration)

    async def __aenter__(self) -> Self:
        """Nothing is sent yet."""
        self._session = self._new_session(limit=MOST_CONNECTIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._configuration.host)

    def watching_session(
        self, answer: type[aiohttp.ClientResponse], *middlewares: aiohttp.ClientMiddlewareType
    ) -> aiohttp.ClientSession:
        """A session of its own for watches, with the same trust and credentials; each answer is an `answer`."""
        # No limit: each kind and namespace holds a connection for minutes.
        return self._new_session(limit=0, middlewares=(self._authorize, *middlewares), response_class=answer)

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, seconds: float
    ) -> Answer:
        """One request and its answer, as Transport says."""
        assert self._session  # noqa: S101 - used as a context manager
        headers = {"Accept": "application/json", "Content-Type": content_type, **await self._credentials()}
        response = await self._session.request(
            method,
            f"{self.server}{path}",
            headers=headers,
            data=None if body is None else as_yaml(body),
            timeout=aiohttp.ClientTimeout(total=seconds),
            server_hostname=self._configuration.tls_server_name or None,
        )
        async with response:
            return Answer(response.status, await response.read(), response.headers.get("Retry-After"))

    def _new_session(self, limit: int, **options: Any) -> aiohttp.ClientSession:
        """At most `limit` connections, 0 for any number."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self._trust),
            cookie_jar=aiohttp.DummyCookieJar(),
            # aiohttp would look for a proxy in the environment and for a password in ~/.netrc, both before every
            # request and in threads. A kubeconfig's `proxy-url` is obeyed.
            trust_env=False,
            proxy=self._configuration.proxy or None,
            **options,
        )

    async def _credentials(self) -> dict[str, str]:
        """Read again for every request: a pod's token is replaced from time to time."""
        token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"Authorization": token} if token else {}

    async def _authorize(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.headers.update(await self._credentials())
        return await handler(request)


def as_yaml(body: Mapping[str, Any]) -> bytes:
    """A body as JSON that YAML reads too, as applies are: there an escape is one character, and no pair makes one."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def _error(method: str, path: str, answer: Answer) -> OperatorError:
    code, retry_after, status = answer.status, answer.retry_after, _status(answer.text)
    said = str(status.get("message") or f"HTTP {code}.")
    message = f"{method} {path}: {said if said.endswith(('.', '!', '?')) else f'{said}.'}"
    causes = (status.get("details") or {}).get("causes") or ()
    if code == 404:
        return NotFound("NotFound", message)
    # Nothing is wrong with our rights, and nothing can be made any more: the namespace ends.
    if code == 403 and any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return Waiting("NamespaceTerminating", message, TERMINATING_SECONDS)
    # 401 among them: the token of a pod is replaced while requests are on their way.
    if code == 409 or code == 429 or code >= 500 or code == 401:
        # The header may also be a date, as some proxies send it: then our own delays do.
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
        return Transient(str(status.get("reason") or "ApiServerError"), message, seconds)
    return Forbidden("ApiForbidden", message) if code == 403 else Stalled("ApiRefused", message)


def _status(text: bytes) -> dict[str, Any]:
    """The Status object of an answer; empty when something else than the API server has answered."""
    try:
        status = json.loads(text)
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}
