"""Between kopf and the API server: counts its requests, tells how its watches fare, and makes lists complete.

kopf forgets what it has listed before, so objects that vanish while a watch is broken would stay in the store
for ever. Every list passes here, and what it does not hold is swept.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from gaudi_operator.shell.kinds import OPTIONAL, WATCHED, Kind
from gaudi_operator.shell.metrics import Metrics

log = logging.getLogger(__name__)

Listed = Callable[[Kind, str | None, set[str], int], None]
"""Called with (kind, namespace or None for all, UIDs in the list, its resource version)."""


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
            await self._list_complete(*target, response)
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

    async def _list_complete(self, kind: Kind, namespace: str | None, response: aiohttp.ClientResponse) -> None:
        answer = await response.json()
        uids = {item["metadata"]["uid"] for item in answer.get("items") or ()}
        self.listed(kind, namespace, uids, int(answer["metadata"]["resourceVersion"]))

    def idle_seconds(self) -> float:
        """Longest time that a kind was neither listed nor watched anew; 0 before the first."""
        return time.monotonic() - min(self.tried.values()) if self.tried else 0.0


def collection_of(path: str) -> tuple[Kind, str | None] | None:
    """The (kind, namespace) whose collection a path names."""
    parts = path.strip("/").split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else None
    return next(((kind, namespace) for kind in (*WATCHED, *OPTIONAL) if kind.path(namespace) == path), None)
