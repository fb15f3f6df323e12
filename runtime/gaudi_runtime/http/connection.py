"""A connection of either port: how long a client may take, how much it may send, who leaves when too many come.

Connections are uvicorn's own over httptools, which parses in C and h11 in Python: that shows in the time to a first
token when many requests come at once. It has no bound of its own for heads, none for the time of anything but a pause
between two requests, and reads some requests otherwise than others do; all that is refused or bounded here.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

VERSIONS = frozenset({"1.0", "1.1"})


@dataclass(frozen=True)
class ServerLimits:
    """Bounds of one port; times in seconds, sizes in bytes.

    `head_seconds` are from a connection's or a head's first moment to the end of the head. A body has `body_seconds`,
    and one more for each `body_rate` bytes that came. One whose answer is out already is thrown away for
    `discard_seconds`. A client that reads nothing of its answer is given up after `reader_seconds`. A connection on
    which nothing is asked waits `linger_seconds` for a last request once the server stops.
    """

    header_bytes: int
    keep_alive_seconds: int
    drain_seconds: int
    connections: int = 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    body_rate: int = 16 * 1024
    discard_seconds: float = 5.0
    reader_seconds: float = 60.0
    linger_seconds: float = 1.0


class Part(Enum):
    """What a connection is waited upon for."""

    HEAD = "head"
    BODY = "body"
    REST = "rest of a body that is no longer needed"


class Connection(HttpToolsProtocol):
    """A connection with bounds; `connection_type` makes the class that uvicorn is given."""

    limits: ServerLimits

    _unread = 0
    """Bytes that came since a head or a piece of a body was whole."""
    _head_bytes = 0
    """Bytes of the headers of this request, those after its body included."""
    _body_bytes = 0
    _in_head = _in_body = False
    _why = ""
    """Why this request is refused, where the parser would take it."""
    _part: Part | None = None
    _part_since = 0.0
    _part_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None
    rests_since = 0.0
    """When an answer ended or the connection was made, on the loop's clock."""

    @property
    def is_answered(self) -> bool:
        """Whether a request of it is in work."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def address(self) -> str:
        """Whose it is."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, even where it is one too many: somebody else may go."""
        super().connection_made(transport)
        self.rests_since = self.loop.time()
        self._wait_for(Part.HEAD)
        if not make_room(self.connections, self.limits.connections, self):
            self._refuse(503, "This server has too many connections; try again.")

    def leave(self) -> None:
        """End it for another, at once: many may come before it is told that it is lost."""
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget its timers."""
        self._wait_for(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and time what has begun and is not whole."""
        if self.transport.is_closing():
            return  # what was refused is not read on
        self._unread += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._wait_for(None)
        elif self._unread > self.limits.header_bytes:
            self.send_400_response(f"The head of a request may have {self.limits.header_bytes} bytes.")
        else:
            self._time_what_is_missing()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head, self._head_bytes, self._body_bytes = True, 0, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count it; what follows a body is no header of ours."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > self.limits.header_bytes:
            self._reject(f"headers have more than {self.limits.header_bytes} bytes")
        # To keep a trailer would let a client put a header behind the back of the proxy that checks them.
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuse what another server could read otherwise, then answer."""
        self._check_framing()
        self._in_head, self._in_body, self._unread = False, True, 0
        super().on_headers_complete()

    # From here on bytes are those of a body, which has a bound of its own (openai_api/guard.py).
    def on_body(self, body: bytes) -> None:
        """More of a body."""
        self._unread = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._unread, self._in_body = 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for it."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for(None)
            return
        self.rests_since = self.loop.time()
        if self._in_body and self.expect_100_continue and not self.is_answered:
            # Its client may send the body that it announced, or another request: nobody could tell which.
            self.transport.close()
        elif self._in_body or self._in_head:
            self._time_what_is_missing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what came."""
        self._refuse(400, self._why or msg)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing was asked for long."""
        self._drop()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        # It would keep its place in the house, and its blocks of the KV cache.
        self._reader_timer = self.loop.call_later(self.limits.reader_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads on."""
        super().resume_writing()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def shutdown(self) -> None:
        """The server stops."""
        # An answer that began before the drain did carries no `Connection: close`: its client asks once more, and
        # that request may be on its way already.
        self.timeout_keep_alive = self.limits.linger_seconds  # type: ignore[assignment]  # asyncio takes parts of one
        if not self.is_answered:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.limits.linger_seconds, self.timeout_keep_alive_handler
            )

    def _check_framing(self) -> None:
        version = self.parser.get_http_version()
        names = Counter(name for name, _ in self.headers)
        encodings = [value for name, value in self.headers if name == b"transfer-encoding"]
        if version not in VERSIONS:
            self._reject("the version of HTTP is 1.0 or 1.1")
        if self.parser.should_upgrade():
            # The parser takes what follows for another protocol, also the body that is announced; others do not.
            self._reject("no other protocol is spoken here: send no Upgrade (Java: HttpClient.Version.HTTP_1_1)")
        if names[b"host"] > 1 or (version == "1.1" and not names[b"host"]):
            self._reject("a request has one Host header")
        if encodings and (version == "1.0" or [each.strip().lower() for each in encodings] != [b"chunked"]):
            self._reject("the Transfer-Encoding of a body is chunked, or none in HTTP/1.0")

    def _reject(self, why: str) -> None:
        """Become an answer with status 400."""
        self._why = f"Refused: {why}."
        raise ValueError(why)

    def _time_what_is_missing(self) -> None:
        if self._in_body:
            self._wait_for(Part.BODY if self.is_answered else Part.REST)
        elif self.is_answered:
            self._wait_for(None)  # the head of a next request has its time when its turn comes
        elif self._part is Part.REST and not self._in_head:
            self._wait_for(None)
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            self._wait_for(Part.HEAD)

    def _wait_for(self, part: Part | None) -> None:
        if part is self._part:
            return
        if self._part_timer is not None:
            self._part_timer.cancel()
            self._part_timer = None
        self._part, self._part_since = part, self.loop.time()
        if part is not None:
            self._unset_keepalive_if_required()
            self._part_timer = self.loop.call_at(self._due(part), self._part_is_due)

    def _due(self, part: Part) -> float:
        limits = self.limits
        if part is Part.BODY:
            return self._part_since + limits.body_seconds + self._body_bytes / limits.body_rate
        return self._part_since + (limits.head_seconds if part is Part.HEAD else limits.discard_seconds)

    def _part_is_due(self) -> None:
        part = self._part
        assert part is not None  # noqa: S101 - the timer is cancelled with it
        if (due := self._due(part)) > self.loop.time():
            self._part_timer = self.loop.call_at(due, self._part_is_due)
        elif part is Part.BODY:
            self._refuse(408, "The body of this request came too slowly.")
        else:
            self._drop()

    def _refuse(self, status: int, sentence: str) -> None:
        """End the connection, with a sentence where that cannot be taken for the answer to another request."""
        own = self._in_body and not self.cycle.response_started and not self.pipeline
        if self.is_answered and not own:
            self._drop()
            return
        text = sentence.encode("ascii")
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
        self.transport.write(STATUS_LINE[status] + head + b"content-length: %d\r\n\r\n%s" % (len(text), text))
        self._drop()

    def _drop(self) -> None:
        """End it, at once where its client does not read."""
        if self.flow.write_paused:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()


def connection_type(limits: ServerLimits) -> type[Connection]:
    """The class of connections with these limits."""
    return type("Connection", (Connection,), {"limits": limits})


class Guest(Protocol):
    """One of the connections of a port. It rests since a moment on the loop's clock."""

    rests_since: float

    @property
    def is_answered(self) -> bool:
        """Whether a request of it is in work."""

    @property
    def address(self) -> str:
        """Whose it is."""

    def leave(self) -> None:
        """Go."""


Crowd = set[Any]
"""The connections of one port; uvicorn's own set, which names the types of its protocols."""


def make_room(crowd: Crowd, most: int, newcomer: Guest) -> bool:
    """Whether `newcomer`, which is in the crowd, may stay; where there are more than `most`, another one leaves."""
    leaving = crowded_out(crowd) if len(crowd) > most else None
    if leaving is newcomer:
        return False
    if leaving is not None:
        leaving.leave()
    return True


def crowded_out(connections: Iterable[Guest]) -> Guest | None:
    """Who leaves when there are too many: nobody who is answered, and of the address that has the most.

    Of its connections, the one that has rested for the longest time. So nobody who opens many makes room for himself
    at the cost of those that have few, such as the kubelet.
    """
    here = list(connections)
    of_address = Counter(each.address for each in here)
    resting = (each for each in here if not each.is_answered)
    return min(resting, key=lambda each: (-of_address[each.address], each.rests_since), default=None)
