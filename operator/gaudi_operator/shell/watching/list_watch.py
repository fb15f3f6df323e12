"""Follows one kind in one namespace, or in all: a list in pages, then a watch from its version on, for ever.

A watch that ends is taken up again at the version that was seen last. When the API server has forgotten that one, the
kind is listed anew, and whoever takes the list finds what has vanished meanwhile. kopf does the same for the resource
itself, and much beside it for every object that changes: tasks, queues, causes and copies, which cost more than all
that is done for a child.
"""

import asyncio
import itertools
import json
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from gaudi_operator.shell.kinds import POD, Kind
from gaudi_operator.shell.watching.incoming import ListReader, kept
from gaudi_operator.shell.watching.trimmed import from_json, shaped

PAGE = 500
"""Objects that are asked for at once: what is read of a page goes before the next one comes."""
CHUNK_BYTES = 256 * 2**10

SERVER_TIMEOUT_SECONDS = 300
"""The API server ends a watch after this time, and the next begins: no watch can hang for longer."""
CONNECT_SECONDS = 10
SILENT_SECONDS = 90
"""Of a watch; bookmarks come every minute."""
LIST_SECONDS = 60
TOGETHER_SECONDS = 0.25
"""Changes of children within so long are read together: what TLS, HTTP and the loop do for each by itself is half of
what it costs. Our own writes are known by their answers.
"""
_SHORT_SECONDS = 1.0
"""A watch that ends sooner than this has failed, whatever was answered."""

_GONE = 410

Object = Mapping[str, Any]
Seen = Callable[[Object], None]
"""Called with the newest version of an object."""
Listed = Callable[[Kind, str | None, Collection[str], int], None]
"""Called at the end of a list, after its objects were seen: (kind, namespace or None for all, UIDs, version)."""

log = logging.getLogger(__name__)


class _Event(msgspec.Struct):
    """One of a watch; its object is read by its kind."""

    type: str
    object: msgspec.Raw


_EVENTS = msgspec.json.Decoder(_Event)


class Forever:
    """Delays between attempts that never end: an API server that is away comes back."""

    def __iter__(self) -> "itertools.chain[float]":
        return itertools.chain((0.2, 0.5, 1.0), itertools.repeat(2.0))


class Failed(Exception):
    """A list or a watch that the API server has not carried out; `version` is the one to go on from, None to list."""

    def __init__(self, version: str | None) -> None:
        super().__init__(version)
        self.version = version


@dataclass(frozen=True)
class ListWatch:
    """Call `seen` with every listed or changed object, `deleted` with the last version of one, `listed` at the end of a
    list. `clock` returns monotonic seconds; `pause` waits between attempts.
    """

    http: aiohttp.ClientSession
    server: str
    kind: Kind
    namespace: str | None
    listed: Listed
    seen: Seen
    deleted: Seen
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def follow(self) -> None:
        """List and watch until cancelled. The session counts requests and notes what fails."""
        version, delays = None, iter(Forever())
        while True:
            try:
                if version is None:
                    version = await self._list()
                began = self.clock()
                version = await self._watch(version)
                if self.clock() - began < _SHORT_SECONDS:
                    raise Failed(version)
                delays = iter(Forever())
            except Failed as failed:
                version = failed.version
                await self.pause(next(delays))

    async def _list(self) -> str:
        """Read all objects, page by page, and return the version of the list. What changes between pages is not in
        it. Nothing but UIDs is kept here: a list has as many objects as its namespaces have room for.
        """
        uids: set[str] = set()
        pages = {"limit": str(PAGE)}
        while True:
            page = await self._page(pages)
            metadata = page["metadata"]
            uids.update(page.get("items") or ())
            if not metadata.get("continue"):
                self.listed(self.kind, self.namespace, uids, int(metadata["resourceVersion"]))
                return str(metadata["resourceVersion"])
            pages = {"limit": str(PAGE), "continue": metadata["continue"]}

    async def _page(self, pages: Mapping[str, str]) -> Object:
        timeout = aiohttp.ClientTimeout(total=LIST_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self.http.get(self._url, params={**self._selected, **pages}, timeout=timeout) as response:
                if response.status != 200:
                    raise Failed(None)
                return await ListReader(response.content.iter_chunked(CHUNK_BYTES), self._take).whole()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Failed(None) from error

    async def _watch(self, version: str) -> str | None:
        """The version to watch on from once the API server has ended the watch; None when it has forgotten it."""
        how = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(SERVER_TIMEOUT_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(
            # Later than the server: for a connection that has died without a word.
            total=SERVER_TIMEOUT_SECONDS + CONNECT_SECONDS,
            sock_connect=CONNECT_SECONDS,
            sock_read=SILENT_SECONDS,
        )
        try:
            async with self.http.get(self._url, params={**self._selected, **how}, timeout=timeout) as response:
                if response.status != 200:
                    raise Failed(None if response.status == _GONE else version)
                async for line in lines(self._chunks(response)):
                    event = _EVENTS.decode(line)
                    if event.type == "ERROR":
                        raise Failed(self._after(json.loads(bytes(event.object)), version))
                    manifest = from_json(self.kind, event.object)
                    version = manifest["metadata"]["resourceVersion"]
                    self._tell(event.type, manifest)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Failed(version) from error
        return version

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """What comes of a watch; of all kinds but pods, whose gates wait, what comes within a moment at once."""
        async for chunk in response.content.iter_any():
            yield chunk
            transport = response.connection and response.connection.transport
            if transport is None or self.kind is POD:
                continue
            transport.pause_reading()
            try:
                await asyncio.sleep(TOGETHER_SECONDS)
            finally:
                transport.resume_reading()

    def _take(self, manifest: Object) -> str:
        # Items of a list do not say their kind as others do.
        named = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        self._tell("LISTED", shaped(self.kind, {**named, **manifest}))
        return str(manifest["metadata"]["uid"])

    def _tell(self, kind: str, manifest: Object) -> None:
        try:
            if kind == "DELETED":
                self.deleted(manifest)  # nothing is kept of it
            elif kind != "BOOKMARK":
                self.seen(kept(self.kind, manifest))
        except Exception:
            # The others of the kind come all the same, and this one with the next list.
            log.exception("What a watch of %s has shown could not be taken in.", self.kind.plural)

    def _after(self, status: Object, version: str) -> str | None:
        """Where to go on after an error in a watch."""
        if status.get("code") == _GONE:
            return None
        log.warning("A watch of %s has ended: %s; it is tried again.", self.kind.plural, status.get("message"))
        return version

    @property
    def _url(self) -> str:
        return f"{self.server}{self.kind.path(self.namespace)}"

    @property
    def _selected(self) -> Mapping[str, str]:
        return {"labelSelector": self.kind.selector} if self.kind.selector else {}


async def lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, however long: the reader's own have a limit, and an object may be larger."""
    parts: list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line))
            parts = []
        parts.append(rest)
