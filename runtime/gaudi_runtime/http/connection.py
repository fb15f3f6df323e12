"""A connection of either port: time limits, size limits, and the eviction of connections above the limit.

Connections use uvicorn's httptools protocol, which parses in C. The h11 protocol is written in Python. With h11, the
first token takes longer if many requests arrive at the same time. uvicorn has no limit for the size of a head, and no
timeout except for the pause between two requests. It also reads some ambiguous requests differently from other servers.
This module adds limits and rejects ambiguous requests.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gaudi_runtime.contract.config import RuntimeConfig

VERSIONS = frozenset({"1.0", "1.1"})
LEAST_CONNECTIONS = 1024
"""The lowest limit of connections, enough for a load test or a gateway's pool. Each takes a few kilobytes."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of the connections of one port. Times are in seconds, sizes in bytes.

    `head_seconds` is the time from the start of a connection or a head to the end of the head. A body may take
    `body_seconds`, and one more second for each `body_rate` bytes received. If the answer was already sent, the rest of
    a body is read and discarded for `discard_seconds`. A client that does not read its answer is disconnected after
    `reader_seconds`. When the server stops, an idle connection waits `linger_seconds` for a last request.
    """

    header_bytes: int
    keep_alive_seconds: int
    drain_seconds: int
    max_connections: int = 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    body_rate: int = 16 * 1024
    discard_seconds: float = 5.0
    reader_seconds: float = 60.0
    linger_seconds: float = 1.0


class _RequestPart(Enum):
    """The part of a request that a connection waits for."""

    HEAD = "head"
    BODY = "body"
    REST = "rest of a body that is no longer needed"


class Connection(HttpToolsProtocol):
    """A connection with limits. `connection_type` creates the subclass for uvicorn."""

    limits: ConnectionLimits

    _unread_bytes = 0
    """Bytes received since the last complete head or part of a body."""
    _head_bytes = 0
    """Bytes of the headers of this request, including trailers."""
    _body_bytes = 0
    _in_head = _in_body = False
    _reject_reason = ""
    """The reason why this request is refused, although the parser accepts it."""
    _awaited_part: _RequestPart | None = None
    _part_since = 0.0
    _part_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None
    idle_since = 0.0
    """The time at which an answer ended or the connection was made, on the loop's clock."""

    @property
    def is_busy(self) -> bool:
        """Whether the server is answering a request on the connection."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection even above the limit, because another connection may be closed instead."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._set_awaited_part(_RequestPart.HEAD)
        if not make_room_for_connection(self.connections, self.limits.max_connections, self):
            self._close_with_error(503, "This server has too many connections. Try again later.")

    def evict(self) -> None:
        """Close the connection immediately and free its place without waiting for `connection_lost`."""
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        self._set_awaited_part(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, and start a timer for an incomplete part."""
        if self.transport.is_closing():
            return  # nothing is read after a refusal
        self._unread_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._set_awaited_part(None)
        elif self._unread_bytes > self.limits.header_bytes:
            self.send_400_response(f"The head of a request may have at most {self.limits.header_bytes} bytes.")
        else:
            self._update_part_timer()

    def on_message_begin(self) -> None:
        """Start a new head."""
        self._in_head, self._head_bytes, self._body_bytes = True, 0, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the header, and ignore it if it is a trailer."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > self.limits.header_bytes:
            self._reject(f"the headers have more than {self.limits.header_bytes} bytes")
        # Headers after the body (trailers) are dropped, because the proxy in front of the server has not checked these
        # headers.
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Reject a request that another server could read differently. Otherwise start to answer the request."""
        self._check_framing()
        self._in_head, self._in_body, self._unread_bytes = False, True, 0
        super().on_headers_complete()

    # The timer and the limits of a head end here. A body has its own limits (openai_api/body_reader.py).
    def on_body(self, body: bytes) -> None:
        """Receive a part of a body."""
        self._unread_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete the request."""
        self._unread_bytes, self._in_body = 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request, or wait for it."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._set_awaited_part(None)
            return
        self.idle_since = self.loop.time()
        if self._in_body and self.expect_100_continue and not self.is_busy:
            # The connection is closed, because the next bytes may be the announced body or another request. The server
            # cannot distinguish the two.
            self.transport.close()
        elif self._in_body or self._in_head:
            self._update_part_timer()

    def send_400_response(self, msg: str) -> None:
        """Reject the request."""
        self._close_with_error(400, self._reject_reason or msg)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long."""
        self._drop()

    def pause_writing(self) -> None:
        """Start a timer, because the client does not read its answer."""
        super().pause_writing()
        # Without the timer, a client that stops reading would keep its place in the queue and its KV cache blocks.
        self._reader_timer = self.loop.call_later(self.limits.reader_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer, because the client reads its answer again."""
        super().resume_writing()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def shutdown(self) -> None:
        """Close the connection because the server stops."""
        # An answer that began before the drain has no `Connection: close`. Its client may already have sent another
        # request on this connection.
        self.timeout_keep_alive = self.limits.linger_seconds  # type: ignore[assignment]  # asyncio takes parts of one
        if not self.is_busy:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.limits.linger_seconds, self.timeout_keep_alive_handler
            )

    def _check_framing(self) -> None:
        version = self.parser.get_http_version()
        host_count = [name for name, _ in self.headers].count(b"host")
        encodings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if version not in VERSIONS:
            self._reject("the HTTP version must be 1.0 or 1.1")
        if self.parser.should_upgrade():
            # The parser treats everything after an upgrade as another protocol, including the body. Other servers read
            # the body as HTTP.
            self._reject("the Upgrade header is not supported. Remove it (Java: HttpClient.Version.HTTP_1_1)")
        if host_count > 1 or (version == "1.1" and not host_count):
            self._reject("a request must have exactly one Host header")
        if encodings and (version == "1.0" or [encoding.strip().lower() for encoding in encodings] != [b"chunked"]):
            self._reject("Transfer-Encoding must be chunked, and must be absent in HTTP/1.0")

    def _reject(self, reason: str) -> None:
        """Answer this request with status 400."""
        self._reject_reason = f"Refused: {reason}."
        raise ValueError(reason)

    def _update_part_timer(self) -> None:
        if self._in_body:
            self._set_awaited_part(_RequestPart.BODY if self.is_busy else _RequestPart.REST)
        elif self.is_busy:
            self._set_awaited_part(None)  # the head of the next request gets its own time later
        elif self._awaited_part is _RequestPart.REST and not self._in_head:
            self._set_awaited_part(None)
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            self._set_awaited_part(_RequestPart.HEAD)

    def _set_awaited_part(self, part: _RequestPart | None) -> None:
        if part is self._awaited_part:
            return
        if self._part_timer is not None:
            self._part_timer.cancel()
            self._part_timer = None
        self._awaited_part, self._part_since = part, self.loop.time()
        if part is not None:
            self._unset_keepalive_if_required()
            self._part_timer = self.loop.call_at(self._part_deadline(part), self._on_part_timer)

    def _part_deadline(self, part: _RequestPart) -> float:
        limits = self.limits
        if part is _RequestPart.BODY:
            return self._part_since + limits.body_seconds + self._body_bytes / limits.body_rate
        return self._part_since + (limits.head_seconds if part is _RequestPart.HEAD else limits.discard_seconds)

    def _on_part_timer(self) -> None:
        part = self._awaited_part
        assert part is not None  # noqa: S101 - the timer is cancelled together with it
        if (deadline := self._part_deadline(part)) > self.loop.time():
            self._part_timer = self.loop.call_at(deadline, self._on_part_timer)
        elif part is _RequestPart.BODY:
            self._close_with_error(408, "The body of this request arrived too slowly.")
        else:
            self._drop()

    def _close_with_error(self, status: int, sentence: str) -> None:
        """Close the connection.

        The reason is sent first unless a client could read it as the answer to another request.
        """
        can_respond = self._in_body and not self.cycle.response_started and not self.pipeline
        if self.is_busy and not can_respond:
            self._drop()
            return
        text = sentence.encode("ascii")
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
        self.transport.write(STATUS_LINE[status] + head + b"content-length: %d\r\n\r\n%s" % (len(text), text))
        self._drop()

    def _drop(self) -> None:
        """Close the connection. Abort the connection if its client does not read."""
        if self.flow.write_paused:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()


def connection_type(limits: ConnectionLimits) -> type[Connection]:
    """Return the class of connections with these limits."""
    return type("Connection", (Connection,), {"limits": limits})


class _Evictable(Protocol):
    """A connection of a port. `idle_since` is a time of the event loop's clock."""

    idle_since: float

    @property
    def is_busy(self) -> bool:
        """Whether the server is answering a request on the connection."""

    @property
    def address(self) -> str:
        """The address of the client."""

    def evict(self) -> None:
        """Close the connection to make room for another one."""


Connections = set[Any]
"""The connections of one port: uvicorn's own set, which is typed by its protocols."""


def connection_limit(config: RuntimeConfig) -> int:
    """Return the most connections of the model port: one for each possible request, and many idle ones."""
    return max(LEAST_CONNECTIONS, 4 * config.places)


def make_room_for_connection(connections: Connections, max_connections: int, new_connection: _Evictable) -> bool:
    """Close a connection if there are more than `max_connections`. Return True if `new_connection` stays open."""
    evicted_connection = _choose_eviction(connections) if len(connections) > max_connections else None
    if evicted_connection is new_connection:
        return False
    if evicted_connection is not None:
        evicted_connection.evict()
    return True


def _choose_eviction(connections: Iterable[_Evictable]) -> _Evictable | None:
    """Return the connection to close if there are too many.

    The result is the longest idle connection of the address with the most connections. A connection with an unfinished
    answer is never closed. So a client that opens many connections cannot displace clients that have few, such as the
    kubelet.
    """
    open_connections = list(connections)
    address_counts = Counter(connection.address for connection in open_connections)
    idle = (connection for connection in open_connections if not connection.is_busy)
    return min(idle, key=lambda connection: (-address_counts[connection.address], connection.idle_since), default=None)
