"""Between kopf and the API server: counts its requests, tells how its watches fare, and takes its lists.

kopf starts a task for every object of a list, never says when the last of them has run, and forgets what it has
listed before. So lists are taken here, each as a whole: it is then known what was listed, and what has vanished while
a watch was broken. kopf is handed them without their objects, and watches on from their version.
"""

import gc
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp

from gaudi_operator.shell.kinds import OPTIONAL, WATCHED, Kind
from gaudi_operator.shell.metrics import Metrics

log = logging.getLogger(__name__)

Listed = Callable[[Kind, str | None, Sequence[Mapping[str, Any]], int], None]
"""Called with (kind, namespace or None for all, the objects of the list, its resource version)."""


class Answer(aiohttp.ClientResponse):
    """An answer of the API server; the objects of a list can be taken out of it."""

    _rest: Mapping[str, Any] | None = None

    async def take_list(self) -> Mapping[str, Any]:
        """The whole list. Who reads the answer afterwards finds no objects in it."""
        text = await self.read()
        gc.disable()  # it would look through what was read so far again and again: three quarters of the time
        try:
            whole: Mapping[str, Any] = json.loads(text)
        finally:
            gc.enable()
        self._rest = {**whole, "items": []}
        return whole

    async def json(self, **options: Any) -> Any:
        """What is left."""
        return await super().json(**options) if self._rest is None else self._rest


@dataclass
class WatchSession:
    """An aiohttp client middleware; `tried` is when each kind was last listed or watched, monotonic seconds."""

    metrics: Metrics
    listed: Listed
    tried: dict[Kind, float] = field(default_factory=dict)
    failing: set[Kind] = field(default_factory=set)

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Pass a request on and note what it was."""
        target = collection_of(request.url.path)
        if target:
            self.tried[target[0]] = time.monotonic()
        response = await self._answered(target[0] if target else None, request, handler)
        watch = request.url.query.get("watch") == "true"
        self.metrics.count_request(request.method, request.url.path, response.status, watch)
        if target and not watch and response.status == 200:
            await self._take_list(*target, response)
        return response

    async def _answered(
        self, kind: Kind | None, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """The answer. kopf tries again without end and tells each time; once per outage is enough."""
        try:
            response = await handler(request)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._tell(kind, str(error) or type(error).__name__)
            raise
        self._tell(kind, f"HTTP {response.status}" if response.status >= 400 else None)
        return response

    def _tell(self, kind: Kind | None, problem: str | None) -> None:
        if kind is None or (kind in self.failing) == (problem is not None):
            return
        if problem:
            self.failing.add(kind)
            log.warning("%s cannot be watched: %s; it is tried again.", kind.plural, problem)
        else:
            self.failing.discard(kind)
            log.info("%s can be watched again.", kind.plural)

    async def _take_list(self, kind: Kind, namespace: str | None, response: aiohttp.ClientResponse) -> None:
        """The whole list: kopf asks for no pages. Its objects do not say their kind as others do."""
        answer = await cast("Answer", response).take_list()
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        objects = [{**named, **each} for each in answer.get("items") or ()]
        self.listed(kind, namespace, objects, int(answer["metadata"]["resourceVersion"]))

    def idle_seconds(self) -> float:
        """Longest time that a kind was neither listed nor watched anew; 0 before the first."""
        return time.monotonic() - min(self.tried.values()) if self.tried else 0.0


def collection_of(path: str) -> tuple[Kind, str | None] | None:
    """The (kind, namespace) whose collection a path names."""
    parts = path.strip("/").split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else None
    return next(((kind, namespace) for kind in (*WATCHED, *OPTIONAL) if kind.path(namespace) == path), None)
