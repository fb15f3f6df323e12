"""The only kopf import: watches become calls. Event and index handlers only, and nothing waits in them.

Daemons, timers and change handlers of kopf would put finalizers or annotations on objects; with the operator
gone, deletions would hang. The index handlers exist because kopf runs them for everything that is listed at
start before it lets any event through: the first pass never sees half a picture.
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
    complete: Callable[[], None],
    started: Callable[[], None],
) -> None:
    """Watch `kinds` until cancelled.

    `seen` hears of every version of every object, `deleted` of the last one, and `complete` is called over and
    over once all of them were listed. `session` makes the HTTP session of a login. `started` is called when kopf
    has taken the signals of the process, so that the caller can take them back.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=server, aiohttp_session=session())

    for kind in kinds:
        _observe(registry, kind, seen, deleted, complete)
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


def _observe(
    registry: kopf.OperatorRegistry, kind: Kind, seen: Seen, deleted: Seen, complete: Callable[[], None]
) -> None:
    group, version = kind.group_version

    @kopf.index(group=group, version=version, plural=kind.plural, id=f"list-{kind.plural}", registry=registry)
    async def index(body: kopf.Body, **_: Any) -> None:
        seen(dict(body))

    @kopf.on.event(group=group, version=version, plural=kind.plural, id=f"see-{kind.plural}", registry=registry)
    async def see(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] == "DELETED":
            deleted(event["object"])
        complete()


def _settings(kinds: Collection[Kind]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # needs no rights on namespaces and definitions
    settings.posting.enabled = False
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
