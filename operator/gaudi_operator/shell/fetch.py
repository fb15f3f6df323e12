"""One question to a pod's status port: `GET /v1/warmup`, distrusting whatever answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import ValidationError

from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.observed import Manifest
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.contract.ports import STATUS_PORT_NAME, WARMUP_PATH
from gaudi_runtime.contract.report import MAX_REPORT_BYTES, WarmupReport

CONNECT_SECONDS = 5.0
READ_SECONDS = 5.0
_CHUNK = 65_536


class Unreachable(Exception):
    """Nobody answered in time. It says nothing about the pod's graphs."""


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


async def fetch(session: aiohttp.ClientSession, target: Target, after: int, wait: float) -> WarmupReport:
    """The report, once its sequence is above `after` or after `wait` seconds.

    Raises Unreachable, or Unusable with the reason why the answer is ignored.
    """
    timeout = aiohttp.ClientTimeout(total=wait + READ_SECONDS, sock_connect=CONNECT_SECONDS)
    query = {"after": str(after), "wait": f"{wait:g}"}
    try:
        async with session.get(target.url, params=query, timeout=timeout, allow_redirects=False) as response:
            body = await _body(response)
    except TimeoutError as error:
        raise Unreachable(f"no answer of {target.url} within {wait + READ_SECONDS:.0f} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"no answer of {target.url}: {error}") from error
    return _report(body)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise Unusable(f"the status port answered with HTTP {response.status}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Unusable("the report is compressed")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MAX_REPORT_BYTES:
            raise Unusable(f"the report is larger than {MAX_REPORT_BYTES} bytes")
    return bytes(body)


def _report(body: bytes) -> WarmupReport:
    try:
        return WarmupReport.model_validate_json(body)
    except ValidationError as error:
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
