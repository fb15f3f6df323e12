"""One connection of a port: uvicorn's own over httptools, with bounds against clients that never finish a head.

httptools parses in C and h11 in Python, which shows in the time to a first token when many requests come at once.
It has no bound of its own for heads.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LINGER_SECONDS = 1
"""How long a connection whose answer ends after the server began to stop waits for a last request."""


def connection(head_bytes: int, first_request_seconds: float) -> type[HttpToolsProtocol]:
    """A connection that refuses a head of more than `head_bytes`, and is closed when none came in time."""

    class Bounded(HttpToolsProtocol):
        _unread = 0
        """Bytes that came since a head or a piece of a body was whole."""
        _head = 0
        """Bytes of the headers of this request, those after its body included."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(first_request_seconds, self._drop_if_silent)

        def data_received(self, data: bytes) -> None:
            self._unread += len(data)
            super().data_received(data)
            if self._unread > head_bytes and not self.transport.is_closing():
                self.send_400_response(f"The head of a request may have {head_bytes} bytes.")

        def on_message_begin(self) -> None:
            self._head = 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            self._head += len(name) + len(value)
            if self._head > head_bytes:
                raise ValueError(f"headers of more than {head_bytes} bytes")  # becomes an answer with status 400
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._unread = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unread = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unread = 0
            super().on_message_complete()

        def _drop_if_silent(self) -> None:
            if self.cycle is None:
                self.transport.close()

        def shutdown(self) -> None:
            """An answer that began before nobody was wanted any more has not said so: its client may ask once more."""
            if self.cycle is None or self.cycle.response_complete:
                super().shutdown()
            else:
                self.timeout_keep_alive = LINGER_SECONDS

    return Bounded
