"""A small client of the API server for tests.

It has administrator permissions and does not use the operator's client.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

Object = dict[str, Any]
_OBJECTS = msgspec.json.Decoder(Object)
"""A JSON decoder that takes half the time of Python's own, because measurements run next to thousands of pods."""

_PLURALS = {
    "Pod": ("v1", "pods"),
    "Node": ("v1", "nodes"),
    "Service": ("v1", "services"),
    "ConfigMap": ("v1", "configmaps"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "ResourceQuota": ("v1", "resourcequotas"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "ControllerRevision": ("apps/v1", "controllerrevisions"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "Event": ("events.k8s.io/v1", "events"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "RayCluster": ("ray.io/v1", "rayclusters"),
    "GaudiInference": ("inference.gaudi.dev/v1alpha1", "gaudiinferences"),
}
CHILDREN = (
    "ReplicaSet",
    "ControllerRevision",
    "Service",
    "ConfigMap",
    "ServiceAccount",
    "PodDisruptionBudget",
    "NetworkPolicy",
)


def api_version(kind: str) -> str:
    """Return the apiVersion of a kind. The items of a list do not contain their apiVersion."""
    return _PLURALS[kind][0]


class KubeApi:
    """An administrator's client for one namespace."""

    def __init__(self, server: str, pki: Path, namespace: str) -> None:
        """Create a client with the certificates ca.crt and admin.crt and the key admin.key in `pki`."""
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        # Limit the number of pooled connections, because httpx checks the state of every pooled connection before each
        # request.
        limits = httpx.Limits(max_keepalive_connections=16, keepalive_expiry=None)
        self._client = httpx.AsyncClient(base_url=server, verify=context, trust_env=False, timeout=30, limits=limits)
        self._tasks: set[asyncio.Task[httpx.Response]] = set()
        self.namespace = namespace
        self.warnings = list[str]()  # The warnings of the last answer, as kubectl prints them.

    async def close(self) -> None:
        """Wait for pending requests and close the connections."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    def path(self, kind: str, name: str = "", subresource: str = "", namespace: str | None = None) -> str:
        """Return the path of a collection or an object. Nodes have no namespace."""
        version, plural = _PLURALS[kind]
        root = f"/{'apis' if '/' in version else 'api'}/{version}"
        scope = "" if kind == "Node" else f"/namespaces/{namespace or self.namespace}"
        return "/".join(filter(None, (f"{root}{scope}/{plural}", name, subresource)))

    async def send(self, method: str, path: str, body: object = None, **options: Any) -> Object:
        """Send one request. Raises httpx.HTTPStatusError if the API server refuses the request."""
        content = None if body is None else json.dumps(body)
        answer = await self._through(self._client.request(method, path, content=content, **options))
        # Retry after the delay in the response header `Retry-After`.
        while answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
            answer = await self._through(self._client.request(method, path, content=content, **options))
        self.warnings = answer.headers.get_list("Warning")
        if answer.is_error:
            raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
        return _OBJECTS.decode(answer.content)

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, or None if the object does not exist."""
        try:
            return await self.send("GET", self.path(kind, name, namespace=namespace))
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return None
            raise

    async def list(self, kind: str, selector: str = "", namespace: str | None = None) -> list[Object]:
        """Return all objects of a kind, sorted by name."""
        found = await self.send("GET", self.path(kind, namespace=namespace), params={"labelSelector": selector})
        return sorted(found["items"], key=lambda each: str(each["metadata"]["name"]))

    async def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create an object."""
        return await self.send("POST", self.path(manifest["kind"]), manifest, headers=_type("application/json"))

    async def merge(self, kind: str, name: str, change: Mapping[str, Any], subresource: str = "") -> Object:
        """Apply a JSON merge patch."""
        headers = _type("application/merge-patch+json")
        return await self.send("PATCH", self.path(kind, name, subresource), change, headers=headers)

    async def change(self, kind: str, name: str, steps: Sequence[Mapping[str, Any]]) -> Object:
        """Apply a JSON patch (RFC 6902)."""
        return await self.send("PATCH", self.path(kind, name), steps, headers=_type("application/json-patch+json"))

    async def strategic(self, kind: str, name: str, change: Mapping[str, Any], subresource: str = "") -> Object:
        """Apply a strategic merge patch. A kubelet writes statuses with such a patch."""
        headers = _type("application/strategic-merge-patch+json")
        return await self.send("PATCH", self.path(kind, name, subresource), change, headers=headers)

    async def delete(self, kind: str, name: str, **options: Any) -> None:
        """Delete an object. Do nothing if the object does not exist."""
        try:
            await self.send("DELETE", self.path(kind, name), options or None, headers=_type("application/json"))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise

    async def watch(self, kind: str) -> AsyncIterator[Object]:
        """Yield the existing objects and then all changes as watch events, until the connection ends."""
        listed = await self.send("GET", self.path(kind))
        for item in listed["items"]:
            yield {"type": "ADDED", "object": item}
        query = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        request = self._client.build_request("GET", self.path(kind), params=query, timeout=None)
        stream = await self._through(self._client.send(request, stream=True))
        try:
            rest = b""
            # Split at newline bytes. str.splitlines() would also split at characters that JSON strings may contain.
            async for chunk in stream.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _OBJECTS.decode(line)
        finally:
            await stream.aclose()

    async def _through(self, request: Coroutine[None, None, httpx.Response]) -> httpx.Response:
        """Send the request and return the answer. If the caller is cancelled, the request still runs to its end."""
        # Do not cancel the request itself. If a task is cancelled during the TLS handshake, httpx leaks the socket.
        task = asyncio.create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[httpx.Response]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Retrieve the exception, or asyncio logs it as never retrieved.


async def until(condition: Callable[[], Awaitable[Any]], what: str, seconds: float = 30.0, every: float = 0.05) -> Any:
    """Poll `condition` until its result is truthy, and return the result. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {seconds:.0f} s in vain for {what}.")
        await asyncio.sleep(every)
    return value


def condition_of(manifest: Mapping[str, Any] | None, type_: str) -> Object:
    """Return the condition of this type from an object's status, or an empty dict if there is no such condition."""
    conditions = ((manifest or {}).get("status") or {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each["type"] == type_), {})


def _type(name: str) -> dict[str, str]:
    return {"Content-Type": name}
