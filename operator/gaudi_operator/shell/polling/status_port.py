"""Asks a pod's status port for its report, `GET /v1/warmup`. What answers may be anything, so all of it is checked."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp
from pydantic import ValidationError

from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest, trim_report
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.contract.ports import STATUS_PORT_NAME, WARMUP_PATH
from gaudi_runtime.contract.report import MAX_REPORT_BYTES, WarmupReport

CONNECT_SECONDS = 5.0
READ_SECONDS = 5.0
_CHUNK = 65_536


class Unreachable(Exception):
    """No answer came in time. It says nothing about the pod's graphs."""


class Unusable(Exception):
    """Something answered, and it is not a report of this container."""


@dataclass(frozen=True)
class Target:
    """A running container and where its status port is."""

    uid: str
    container_id: str
    address: str
    port: int

    @property
    def url(self) -> str:
        """URL of the report."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}{WARMUP_PATH}"


def target_of(pod: Manifest) -> Target | None:
    """Where to ask about a pod; None while its runtime container does not run, or when the pod is going."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    container: Mapping[str, Any] = next(
        (each for each in status.get("containerStatuses") or () if each["name"] == CONTAINER), {}
    )
    running = "running" in (container.get("state") or {})
    if not (running and container.get("containerID") and status.get("podIP")) or "deletionTimestamp" in metadata:
        return None
    return Target(
        uid=metadata["uid"],
        container_id=container["containerID"],
        address=status["podIP"],
        port=_status_port(pod.get("spec") or {}),
    )


class Fetch(Protocol):
    """Asks a container for its report."""

    async def __call__(self, target: Target, after: int, wait: float) -> WarmupReport:
        """Return what decides of the report, once its sequence is above `after` or after `wait` seconds.

        Raises Unreachable, or Unusable with the reason why the answer is ignored.
        """


ASKED_AT_ONCE = 64
"""Pods that are asked for what they say at this moment."""

IDLE_SECONDS = 0.5
"""After which an unused connection is closed: polls follow one another at once, others do not come back soon, and each
connection takes 14 KB.
"""


class StatusPorts:
    """The status ports of pods, by HTTP. Use as an async context manager."""

    def __init__(self) -> None:
        """No pod is asked yet."""
        self._asked = asyncio.Semaphore(ASKED_AT_ONCE)

    async def __aenter__(self) -> Self:
        """Open the session: no cookies, no proxies, no decompression of what a pod may send."""
        self._session = aiohttp.ClientSession(
            # No limit here: who is asked again would go before all who wait for a connection, for ever. Reports bounds
            # how many polls are held.
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=None, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            # A few kilobytes of gzip may unfold to gigabytes.
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def fetch(self, target: Target, after: int, wait: float) -> WarmupReport:
        """A report, as Fetch says."""
        # The time in the queue is not the pod's.
        async with contextlib.nullcontext() if wait else self._asked:
            return await self._fetch(target, after, wait)

    async def _fetch(self, target: Target, after: int, wait: float) -> WarmupReport:
        timeout = aiohttp.ClientTimeout(total=wait + READ_SECONDS, sock_connect=CONNECT_SECONDS)
        query = {"after": str(after), "wait": f"{wait:g}"}
        try:
            # No redirects: a pod must not make the operator ask where only the operator may.
            async with self._session.get(target.url, params=query, timeout=timeout, allow_redirects=False) as response:
                body = await _body(response)
        except TimeoutError as error:
            raise Unreachable(f"no answer of {target.url} within {wait + READ_SECONDS:.0f} s") from error
        except aiohttp.ClientConnectorError as error:
            # Its own words repeat the address twice; these stand in a status for as long as a process starts.
            cause = os.strerror(error.errno).lower() if error.errno else str(error.os_error)
            raise Unreachable(f"no answer of {target.url}: {cause}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"no answer of {target.url}: {error}") from error
        return read_report(body)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise Unusable(f"the status port answered with HTTP {response.status}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Unusable("the report is compressed")
    body = bytearray()
    # Counted as it comes: a Content-Length may be wrong or missing.
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MAX_REPORT_BYTES:
            raise Unusable(f"the report is larger than {MAX_REPORT_BYTES} bytes")
    return bytes(body)


def read_report(body: bytes) -> WarmupReport:
    """Read the body of an answer. Raises Unusable with the first field that is wrong."""
    try:
        return trim_report(WarmupReport.model_validate_json(body))
    except ValidationError as error:
        # Without the input: what a pod sends would stand in the status for all to read.
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise Unusable(f"the report cannot be read: {where}: {first['msg']}") from error


def _status_port(spec: Mapping[str, Any]) -> int:
    ports = (
        int(port["containerPort"])
        for container in spec.get("containers") or ()
        if container["name"] == CONTAINER
        for port in container.get("ports") or ()
        if port.get("name") == STATUS_PORT_NAME
    )
    return next(ports, ServingConfig().status_port)
