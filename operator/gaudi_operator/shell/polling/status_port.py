"""The client of a pod's status port. It requests `GET /v1/warmup` and validates the answer of the untrusted pod."""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp
from pydantic import ValidationError

from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest, trim_observed_report
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.contract.ports import STATUS_PORT_NAME, WARMUP_PATH
from gaudi_runtime.contract.report import MAX_REPORT_BYTES, WarmupReport

CONNECT_SECONDS = 5.0
READ_SECONDS = 5.0
_CHUNK = 65_536


class StatusPortUnreachable(Exception):
    """An error that is raised if a status port cannot be reached or does not answer in time.

    The pod may still have its captured graphs.
    """


class StatusPortReportUnusable(Exception):
    """An error that is raised if the answer of a status port is not a report of this container."""


@dataclass(frozen=True)
class StatusPort:
    """A running container and the address of its status port."""

    uid: str
    container_id: str
    address: str
    port: int

    @property
    def url(self) -> str:
        """The URL of the report."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}{WARMUP_PATH}"


def status_port_of(pod: Manifest) -> StatusPort | None:
    """Return the status port of a pod; None if the runtime container is not running or the pod is terminating."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    container: Mapping[str, Any] = next(
        (container for container in status.get("containerStatuses") or () if container["name"] == CONTAINER), {}
    )
    is_running = "running" in (container.get("state") or {})
    if not (is_running and container.get("containerID") and status.get("podIP")) or "deletionTimestamp" in metadata:
        return None
    return StatusPort(
        uid=metadata["uid"],
        container_id=container["containerID"],
        address=status["podIP"],
        port=_status_port_number(pod.get("spec") or {}),
    )


class FetchFromStatusPort(Protocol):
    """A function that requests the report of a container from its status port."""

    async def __call__(self, target: StatusPort, after: int, wait: float) -> WarmupReport:
        """Return the report as soon as its sequence number is above `after`, or after `wait` seconds.

        Raises StatusPortUnreachable, or StatusPortReportUnusable with the reason why the answer is ignored.
        """


CONCURRENT_REQUESTS = 64
"""The maximum number of concurrent requests without long-poll."""

IDLE_SECONDS = 0.5
"""Seconds after which an unused connection is closed.

A poll follows the previous poll at once. Other requests are rare, and each open connection takes 14 KB.
"""


class StatusPortClient:
    """An HTTP client for the status ports of pods. Use as an async context manager."""

    def __init__(self) -> None:
        """Create a client without connections."""
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def __aenter__(self) -> Self:
        """Open an HTTP session without cookies, proxies and decompression."""
        self._session = aiohttp.ClientSession(
            # Do not limit the connections here. With a limit, aiohttp would give a free connection to a task that
            # repeats its request, before tasks that already wait. Reports limits the number of open polls.
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=None, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            # Do not decompress responses, because a few kilobytes of gzip may expand to gigabytes.
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._session.close()

    async def fetch(self, target: StatusPort, after: int, wait: float) -> WarmupReport:
        """Return a report. See FetchFromStatusPort."""
        # Wait for a slot before the timeout starts. Otherwise the time in the queue would count as time of the pod.
        async with contextlib.nullcontext() if wait else self._slots:
            return await self._fetch(target, after, wait)

    async def _fetch(self, target: StatusPort, after: int, wait: float) -> WarmupReport:
        timeout = aiohttp.ClientTimeout(total=wait + READ_SECONDS, sock_connect=CONNECT_SECONDS)
        query = {"after": str(after), "wait": f"{wait:g}"}
        try:
            # Do not follow redirects. Otherwise a pod could make the operator send requests to any address.
            async with self._session.get(target.url, params=query, timeout=timeout, allow_redirects=False) as response:
                body = await _read_body(response)
        except TimeoutError as error:
            raise StatusPortUnreachable(f"no answer of {target.url} within {wait + READ_SECONDS:.0f} s") from error
        except aiohttp.ClientConnectorError as error:
            # Use a shorter message than the library. The library's message contains the address twice, and users see
            # the message in the status while a process starts.
            cause = os.strerror(error.errno).lower() if error.errno else str(error.os_error)
            raise StatusPortUnreachable(f"no answer of {target.url}: {cause}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise StatusPortUnreachable(f"no answer of {target.url}: {error}") from error
        return parse_status_port_report(body)


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise StatusPortReportUnusable(f"the status port answered with HTTP {response.status}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise StatusPortReportUnusable("the report is compressed")
    body = bytearray()
    # Count the received bytes, because the Content-Length header may be wrong or missing.
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MAX_REPORT_BYTES:
            raise StatusPortReportUnusable(f"the report is larger than {MAX_REPORT_BYTES} bytes")
    return bytes(body)


def parse_status_port_report(body: bytes) -> WarmupReport:
    """Parse the answer of a status port. Raises StatusPortReportUnusable, which names the first invalid field."""
    try:
        return trim_observed_report(WarmupReport.model_validate_json(body))
    except ValidationError as error:
        # Omit the input from the message. Otherwise all readers of the status could read data of the pod.
        first_error = error.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(str(part) for part in first_error["loc"]) or "the answer"
        raise StatusPortReportUnusable(f"the report cannot be read: {field_path}: {first_error['msg']}") from error


def _status_port_number(spec: Mapping[str, Any]) -> int:
    ports = (
        int(port["containerPort"])
        for container in spec.get("containers") or ()
        if container["name"] == CONTAINER
        for port in container.get("ports") or ()
        if port.get("name") == STATUS_PORT_NAME
    )
    return next(ports, ServingConfig().status_port)
