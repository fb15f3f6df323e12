"""An HTTP server for a folder on this machine, in the layout of an object store. Tests can request faults."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit


@dataclass
class StoreState:
    """The state of a store: the received requests and the next faults."""

    folder: Path
    url: str = ""
    statuses: list[int] = field(default_factory=list)
    """The status codes of the next answers, for any request."""
    cut: int = 0
    """The number of the next objects that break off in the middle."""
    damage: int = 0
    """The number of the next objects that have a wrong byte."""
    endless: bool = False
    """Whether objects are longer than announced."""
    elsewhere: str | None = None
    """The URL to which every request is redirected."""
    hold: threading.Event | None = None
    """The event that objects wait for."""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """(path, headers) of each request."""


@contextmanager
def store_server(folder: Path, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[StoreState]:
    """Run a store on a free port of `host` during the block. With `tls`, the store uses HTTPS."""
    state = StoreState(folder)
    handler = type("Handler", (_Handler,), {"state": state})
    with ThreadingHTTPServer((host, 0), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        state.url = f"{'https' if tls else 'http'}://{host}:{server.server_port}/recipes"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            if state.hold:
                state.hold.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: ClassVar[StoreState]

    def do_GET(self) -> None:
        """Answer with the requested file, or with a fault from the state."""
        path = urlsplit(self.path).path
        self.state.requests.append((path, {name.lower(): value for name, value in self.headers.items()}))
        file = self.state.folder / path.removeprefix("/recipes/")
        if self.state.statuses:
            self._answer(self.state.statuses.pop(0))
        elif self.state.elsewhere:
            self._answer(302, {"Location": self.state.elsewhere})
        elif not file.is_file():
            self._answer(404)
        else:
            self._send_file(file.read_bytes(), is_object="/objects/" in path)

    def _send_file(self, content: bytes, *, is_object: bool) -> None:
        sent = content
        if is_object:
            if self.state.hold:
                self.state.hold.wait()
            sent = self._with_fault(content)
        self._answer(200, {"Content-Length": str(max(len(content), len(sent)))}, sent)

    def _with_fault(self, content: bytes) -> bytes:
        if self.state.cut:
            self.state.cut -= 1
            return content[: len(content) // 2]
        if self.state.damage:
            self.state.damage -= 1
            return bytes([content[0] ^ 1]) + content[1:]
        return content * 3 if self.state.endless else content

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {"Content-Length": "0"}).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # The client may have given up.
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
