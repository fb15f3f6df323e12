"""The list-watch of one kind in one or in all namespaces: a paged list, then watches from the version of the list.

After a watch ends, the next watch continues from the last seen version. If the API server no longer has this version,
the kind is listed again, and the receiver of the list finds the objects that were deleted in the meantime. kopf does
the same for GaudiInferences. For each change, however, kopf's tasks, queues and copies cost more than the processing of
a child.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from gaudi_operator.retry_delays import RetryDelays
from gaudi_operator.shell.kinds import POD, Kind
from gaudi_operator.shell.watching.incoming import IncomingListReader, reduce_incoming_object
from gaudi_operator.shell.watching.trimmed_objects import read_trimmed_object, select_trimmed_fields

PAGE_SIZE = 500
"""The number of objects per page. A page is freed before the next page arrives."""
CHUNK_BYTES = 256 * 2**10

SERVER_TIMEOUT_SECONDS = 300
"""The seconds after which the API server ends a watch, so that no watch can hang longer."""
CONNECT_SECONDS = 10
SILENT_SECONDS = 90
"""The seconds without data after which a watch counts as dead. The API server sends bookmarks every minute."""
LIST_SECONDS = 60
TOGETHER_SECONDS = 0.25
"""The seconds for which changes of children are collected.

Without this delay, TLS, HTTP and the event loop cost half of each change. The operator's own writes are not delayed,
because their responses are stored.
"""
_SHORT_SECONDS = 1.0
"""The minimum duration of a watch. A shorter watch counts as failed, whatever the response was."""

_GONE = 410

Object = Mapping[str, Any]
Seen = Callable[[Object], None]
"""A callback with the newest version of an object."""
Listed = Callable[[Kind, str | None, Collection[str], int], None]
"""A callback after all objects of a list: (kind, namespace or None for all, UIDs, version)."""

log = logging.getLogger(__name__)


class _Event(msgspec.Struct):
    """A watch event. Its object is still encoded, because the decoder depends on the kind."""

    type: str
    object: msgspec.Raw


_EVENTS = msgspec.json.Decoder(_Event)


class ListWatchFailed(Exception):
    """An error of a list or watch. `version` is the version to continue from; None means to list again."""

    def __init__(self, version: str | None) -> None:
        super().__init__(version)
        self.version = version


@dataclass(frozen=True)
class ListWatch:
    """A list-watch that calls `on_change` for each listed or changed object and `on_deletion` for each deleted object.

    `on_list_end` is called at the end of a list. `clock` returns monotonic seconds. `pause` is called to wait between
    attempts and while changes are collected.
    """

    http: aiohttp.ClientSession
    server: str
    kind: Kind
    namespace: str | None
    on_list_end: Listed
    on_change: Seen
    on_deletion: Seen
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """List and watch until cancelled. The session counts requests and records failures."""
        version, delays = None, iter(RetryDelays())
        while True:
            try:
                if version is None:
                    version = await self._list()
                started_at = self.clock()
                version = await self._watch(version)
                if self.clock() - started_at < _SHORT_SECONDS:
                    raise ListWatchFailed(version)
                delays = iter(RetryDelays())
            except ListWatchFailed as failure:
                version = failure.version
                await self.pause(next(delays))

    async def _list(self) -> str:
        """Read all objects page by page, and return the version of the list, which is the same for all pages.

        This method keeps only the UIDs, because the number of objects is unlimited.
        """
        uids: set[str] = set()
        query = {"limit": str(PAGE_SIZE)}
        while True:
            page = await self._read_page(query)
            metadata = page["metadata"]
            uids.update(page.get("items") or ())
            if not metadata.get("continue"):
                self.on_list_end(self.kind, self.namespace, uids, int(metadata["resourceVersion"]))
                return str(metadata["resourceVersion"])
            query = {"limit": str(PAGE_SIZE), "continue": metadata["continue"]}

    async def _read_page(self, query: Mapping[str, str]) -> Object:
        timeout = aiohttp.ClientTimeout(total=LIST_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self.http.get(self._url, params={**self._selector_query, **query}, timeout=timeout) as response:
                if response.status != 200:
                    raise ListWatchFailed(None)
                return await IncomingListReader(
                    response.content.iter_chunked(CHUNK_BYTES), self._process_listed_object
                ).read()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ListWatchFailed(None) from error

    async def _watch(self, version: str) -> str | None:
        """Watch until the API server ends the watch. Returns the version to continue from."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(SERVER_TIMEOUT_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(
            # The server ends the watch first. The total timeout is longer, so that it expires only if the connection is
            # dead.
            total=SERVER_TIMEOUT_SECONDS + CONNECT_SECONDS,
            sock_connect=CONNECT_SECONDS,
            sock_read=SILENT_SECONDS,
        )
        try:
            async with self.http.get(self._url, params={**self._selector_query, **query}, timeout=timeout) as response:
                if response.status != 200:
                    raise ListWatchFailed(None if response.status == _GONE else version)
                async for line in split_list_watch_lines(self._chunks(response)):
                    event = _EVENTS.decode(line)
                    if event.type == "ERROR":
                        raise ListWatchFailed(self._version_after_error(json.loads(bytes(event.object)), version))
                    manifest = read_trimmed_object(self.kind, event.object)
                    version = manifest["metadata"]["resourceVersion"]
                    self._dispatch(event.type, manifest)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ListWatchFailed(version) from error
        return version

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield the data of a watch. Reading pauses after each chunk to collect changes.

        Reading does not pause for pods, because gates depend on pods.
        """
        async for chunk in response.content.iter_any():
            yield chunk
            transport = response.connection and response.connection.transport
            if transport is None or self.kind is POD:
                continue
            transport.pause_reading()
            try:
                await self.pause(TOGETHER_SECONDS)
            finally:
                transport.resume_reading()

    def _process_listed_object(self, manifest: Object) -> str:
        # Add `apiVersion` and `kind`, because the items of a list do not contain these fields.
        type_meta = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        self._dispatch("LISTED", select_trimmed_fields(self.kind, {**type_meta, **manifest}))
        return str(manifest["metadata"]["uid"])

    def _dispatch(self, event_type: str, manifest: Object) -> None:
        try:
            if event_type == "DELETED":
                self.on_deletion(manifest)  # a deleted object is not stored, so it need not be reduced
            elif event_type != "BOOKMARK":
                self.on_change(reduce_incoming_object(self.kind, manifest))
        except Exception:
            # Log the error, so that the watch continues with other objects. The next list contains the failed object
            # again.
            log.exception("An event of the watch of %s could not be processed.", self.kind.plural)

    def _version_after_error(self, status: Object, version: str) -> str | None:
        """Return the version to continue from after an error event; None to list again."""
        if status.get("code") == _GONE:
            return None
        log.warning("The watch of %s ended: %s. It is retried.", self.kind.plural, status.get("message"))
        return version

    @property
    def _url(self) -> str:
        return f"{self.server}{self.kind.path(self.namespace)}"

    @property
    def _selector_query(self) -> Mapping[str, str]:
        return {"labelSelector": self.kind.selector} if self.kind.selector else {}


async def split_list_watch_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the complete lines of a watch. A line may have any length.

    The line reader of aiohttp is not used, because an object may be longer than the limit of this reader.
    """
    line_parts: list[bytes] = []
    async for chunk in chunks:
        *lines, remainder = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*line_parts, line))
            line_parts = []
        line_parts.append(remainder)
