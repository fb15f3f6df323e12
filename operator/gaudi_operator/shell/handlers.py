"""The only kopf import: watches become calls. Event handlers only, and nothing waits in them.

Daemons, timers and change handlers of kopf would put finalizers or annotations on objects; with the operator
gone, deletions would hang. Its indices would tell when everything was listed, and cost the square of what exists:
they keep a lock per object, and each wakes all that wait. Lists pass through watch_session.py, which tells the same.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import aiohttp
import kopf

from gaudi_operator.shell.kinds import Kind

SERVER_TIMEOUT_SECONDS = 300
"""The API server ends a watch after this time, and kopf starts the next: no watch can hang for longer."""

_CONNECT_SECONDS = 10
_SILENT_SECONDS = 90  # bookmarks come every minute

Seen = Callable[[Mapping[str, Any]], None]


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf would copy every object of every event, to compare it for change handlers that nobody has."""

    def build(self, **_: Any) -> Any:
        """Nothing is compared."""
        return None

    def fetch(self, **_: Any) -> Any:
        """Nothing was kept."""
        return None

    def store(self, **_: Any) -> None:
        """Nothing is kept."""


class _Forever:
    """Delays between attempts that never end: an API server that is away comes back."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.2, 0.5, 1.0), itertools.repeat(2.0))


async def watch(
    server: str,
    session: Callable[[], aiohttp.ClientSession],
    namespaces: Collection[str],
    kinds: Collection[Kind],
    seen: Seen,
    deleted: Seen,
    started: Callable[[], None],
) -> None:
    """Watch `kinds` until cancelled.

    `seen` hears of every change of an object, `deleted` of its last version. What lists hold is told by `session`,
    which makes the HTTP session of a login. `started` is called when kopf has taken the signals of the process, so
    that the caller can take them back.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=server, aiohttp_session=session())

    for kind in kinds:
        _observe(registry, kind, seen, deleted)
    before = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=_settings(kinds),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
    )
    started()
    await kopf.run_tasks(tasks, ignored=before)


def _observe(registry: kopf.OperatorRegistry, kind: Kind, seen: Seen, deleted: Seen) -> None:
    group, version = kind.group_version

    @kopf.on.event(group=group, version=version, plural=kind.plural, id=f"see-{kind.plural}", registry=registry)
    async def see(event: kopf.RawEvent, **_: Any) -> None:
        (deleted if event["type"] == "DELETED" else seen)(event["object"])


def _settings(kinds: Collection[Kind]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # needs no rights on namespaces and definitions
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.networking.error_backoffs = _Forever()
    settings.networking.connect_timeout = _CONNECT_SECONDS
    settings.watching.connect_timeout = _CONNECT_SECONDS
    settings.watching.server_timeout = SERVER_TIMEOUT_SECONDS
    settings.watching.client_timeout = SERVER_TIMEOUT_SECONDS + _CONNECT_SECONDS
    settings.watching.inactivity_timeout = _SILENT_SECONDS
    settings.process.ultimate_exiting_timeout = None
    for kind in kinds:
        if kind.selector:
            group, version = kind.group_version
            settings.watching.label_selectors[group, version, kind.plural] = kind.selector
    return settings
