"""The client of the API server, which maps the errors of the API server to errors of the operator.

`Connection` sends HTTP requests and opens sessions for watches. `Cluster` maps errors, and refuses writes if this
process does not lead.
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

from gaudi_operator.errors import (
    ForbiddenError,
    NotFoundError,
    NotLeaderError,
    OperatorError,
    StalledError,
    TransientError,
    WaitingError,
)

REQUEST_SECONDS = 15.0
TERMINATING_SECONDS = 5.0
MOST_CONNECTIONS = 64
"""The maximum connections for requests, without watches. Requests on more connections would wait in the API server."""
SERVER_APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

CountRequest = Callable[[str, str, int], None]
"""A callback after each answer: (verb, path, status code)."""


class ApiClientResponse(NamedTuple):
    """The response of the API server. `retry_after` is its Retry-After header."""

    status: int
    body: bytes
    retry_after: str | None = None


class _Transport(Protocol):
    """The transport of the client, which sends requests to the API server."""

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, seconds: float
    ) -> ApiClientResponse:
        """Send one request. Raises aiohttp.ClientError, TimeoutError or OSError if there is no response."""


_OBJECTS = msgspec.json.Decoder(dict[str, Any])
"""A JSON decoder that is twice as fast as Python's own. Every write has a response to decode."""


class ClusterClient:
    """A client of the API server that uses the account of this process."""

    def __init__(self, transport: _Transport, count_request: CountRequest) -> None:
        """Create a client. `count_request` is called after every response."""
        self._transport = transport
        self._count_request = count_request
        # Allow all writes by default, because the process may run without leader election. With leader election,
        # replica.py replaces this function.
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
        """Send one request and return the response object.

        If `fenced` is True, a write is sent only while this process certainly leads. `seconds` is the timeout. Raises
        the OperatorError that matches the response.
        """
        # Check the lease immediately before each write, because the lease may be lost during a reconcile.
        if fenced and method in _WRITES and not self.may_write():
            raise NotLeaderError("NotLeader", f"{method} {path} is not sent: the lease is lost or too old.")
        target = path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = await self._transport.send(method, target, body, content_type, seconds)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(
                "ApiServerUnreachable", f"{method} {path}: no answer ({error or type(error).__name__})."
            ) from error
        self._count_request(method, path, answer.status)
        if answer.status >= 400:
            raise _error_from_response(method, path, answer)
        try:
            # A proxy or a login page may answer with status 200 and a body that is not JSON.
            return _OBJECTS.decode(answer.body)
        except ValueError as error:
            raise TransientError("NotTheApiServer", f"{method} {path}: the answer is not an object.") from error


class Connection:
    """An HTTP connection to the API server. Use as an async context manager, in one event loop.

    The client library reads kubeconfigs, credentials and CA certificates. Requests use aiohttp directly, because the
    library's overhead doubles the cost of a request.
    """

    def __init__(self, configuration: Configuration) -> None:
        """Create a connection without opening it."""
        self._configuration = configuration
        self._ssl_context = RESTClientObject(configuration).ssl_context
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, kubeconfig: str | None) -> Self:
        """Connect to the cluster of `kubeconfig`, or to the cluster of this pod if `kubeconfig` is None."""
        configuration = Configuration()
        if kubeconfig:
            await load_kube_config(kubeconfig, client_configuration=configuration, persist_config=False)
        else:
            load_incluster_config(configuration)
        return cls(configuration)

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        self._session = self._new_session(limit=MOST_CONNECTIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()

    @property
    def server_url(self) -> str:
        """The URL of the API server."""
        return str(self._configuration.host)

    def new_watch_session(
        self, response_class: type[aiohttp.ClientResponse], *middlewares: aiohttp.ClientMiddlewareType
    ) -> aiohttp.ClientSession:
        """Return a session for watches with the same trust and credentials, and with responses of `response_class`."""
        # Do not limit the number of connections. Each watch keeps one connection open for minutes, and there is one
        # watch per kind and namespace.
        return self._new_session(limit=0, middlewares=(self._authorize, *middlewares), response_class=response_class)

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, seconds: float
    ) -> ApiClientResponse:
        """Send one request. See Transport.send()."""
        assert self._session  # noqa: S101 - used as a context manager
        headers = {"Accept": "application/json", "Content-Type": content_type, **await self._auth_headers()}
        response = await self._session.request(
            method,
            f"{self.server_url}{path}",
            headers=headers,
            data=None if body is None else _encode_body(body),
            timeout=aiohttp.ClientTimeout(total=seconds),
            server_hostname=self._configuration.tls_server_name or None,
        )
        async with response:
            return ApiClientResponse(response.status, await response.read(), response.headers.get("Retry-After"))

    def _new_session(self, limit: int, **options: Any) -> aiohttp.ClientSession:
        """Return a session with at most `limit` connections; 0 means no limit."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self._ssl_context),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Disable `trust_env`. Otherwise aiohttp would read proxies from the environment and passwords from
            # `~/.netrc` before every request. The `proxy-url` of a kubeconfig still applies.
            trust_env=False,
            proxy=self._configuration.proxy or None,
            **options,
        )

    async def _auth_headers(self) -> dict[str, str]:
        """Return the header with the token. The token is read for each request, because a pod's token is replaced."""
        token = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"Authorization": token} if token else {}

    async def _authorize(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.headers.update(await self._auth_headers())
        return await handler(request)


def _encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode the body of a request as JSON that is also valid YAML.

    Server-side apply reads the body as YAML, which does not support surrogate pairs.
    """
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def _error_from_response(method: str, path: str, answer: ApiClientResponse) -> OperatorError:
    code, retry_after, status = answer.status, answer.retry_after, _parse_status(answer.body)
    detail = str(status.get("message") or f"HTTP {code}.")
    message = f"{method} {path}: {detail if detail.endswith(('.', '!', '?')) else f'{detail}.'}"
    causes = (status.get("details") or {}).get("causes") or ()
    if code == 404:
        return NotFoundError("NotFound", message)
    # This is not a missing permission. The API server also answers 403 if the namespace of a new object is terminating.
    if code == 403 and any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return WaitingError("NamespaceTerminating", message, TERMINATING_SECONDS)
    # An object with an unknown field or a wrong type is refused again at each retry (Kubernetes issue 122480).
    if code == 500 and detail.startswith("failed to create typed patch object"):
        return StalledError("ApiRefused", message)
    # Retry after 401. The token of a pod may have been replaced while the request was in flight.
    if code == 409 or code == 429 or code >= 500 or code == 401:
        # Some proxies send a date in the Retry-After header. Ignore the date and use the default back-off.
        retry_seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
        return TransientError(str(status.get("reason") or "ApiServerError"), message, retry_seconds)
    denial = _POLICY_DENIAL.search(detail) if _WORKLOAD_PATH.search(path) else None
    if denial:
        return StalledError(
            "PodNotAllowed",
            f"The API server does not allow the pods of this spec.pod. {denial[1]} Change spec.pod, or ask the "
            "administrator of the installation.",
        )
    # An admission policy or webhook refuses the content of the request. Permissions are not missing.
    if code == 403 and not re.search("denied (the )?request", detail):
        return ForbiddenError("ApiForbidden", message)
    return StalledError("ApiRefused", message)


_WORKLOAD_PATH = re.compile("/(replicasets|leaderworkersets)/")
_POLICY_DENIAL = re.compile(r"ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: (.*)", re.DOTALL)
"""The message of a policy that refuses a workload, such as the chart's policy for the operator's account."""


def _parse_status(body: bytes) -> dict[str, Any]:
    """Return the Status object of a response; an empty dict if the response is not from the API server."""
    try:
        status = json.loads(body)
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}
