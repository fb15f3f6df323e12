"""A small model hub on this machine: repository listing, files with ranges, and a second host for large files."""

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote

COMMIT = "c0ffee" * 6 + "c0ff"
REPO = "tiny/model"
LARGE = ".safetensors"


@dataclass
class HubState:
    """The contents of the hub, the required credentials, and the next faults."""

    files: dict[str, bytes]
    repo: str = REPO
    token: str | None = None
    gated: bool = False
    commit: str = COMMIT
    break_after: list[int] = field(default_factory=list)
    """The byte after which the connection breaks, for each of the next downloads of large files."""
    damage: int = 0
    """The number of the next downloads of large files that have a wrong byte."""
    excess: int = 0
    """The number of the next downloads of large files that are longer than announced."""
    statuses: list[int] = field(default_factory=list)
    """The status codes of the next answers, for any request."""
    ranges: bool = True
    requests: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    """(path, range, authorization) of each request."""
    encodings: list[str | None] = field(default_factory=list)
    """The Accept-Encoding header of each request for content."""
    hold: threading.Event | None = None
    """The event that downloads of large files wait for."""
    reached: threading.Event = field(default_factory=threading.Event)
    """The event that is set when a large file is requested."""

    def downloads(self) -> list[tuple[str, str | None]]:
        """Return (name, range) of each request for the content of a large file."""
        return [(path.rsplit("/", 1)[-1], wanted) for path, wanted, _ in self.requests if path.startswith("/content/")]


def tree(state: HubState, metadata: bool = True) -> dict[str, object]:
    """Return the hub's listing of a model. With `metadata`, the listing contains the metadata of the files."""
    return {
        "_id": "1",
        "id": state.repo,
        "sha": state.commit,
        "siblings": [
            _sibling(name, content) if metadata else {"rfilename": name} for name, content in state.files.items()
        ],
    }


def listing(state: HubState) -> list[dict[str, object]]:
    """Return the hub's listing of the files in a commit, in the format that the hub's own library reads."""
    return [
        {"type": "file", "path": name, "size": len(content), "oid": _blob(content)}
        for name, content in state.files.items()
    ]


def _sibling(name: str, content: bytes) -> dict[str, object]:
    sha256 = hashlib.sha256(content).hexdigest()
    if LARGE not in name:
        return {"rfilename": name, "size": len(content), "blobId": _blob(content)}
    # Git stores a pointer instead of a large file, so `blobId` is the hash of the pointer.
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()
    lfs = {"sha256": sha256, "size": len(content), "pointerSize": len(pointer)}
    return {"rfilename": name, "size": len(content), "blobId": _blob(pointer), "lfs": lfs}


def _blob(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


class HubHandler(BaseHTTPRequestHandler):
    """A handler that answers like the hub.

    Requests for large files are redirected to /content/ under another host name.
    """

    state: ClassVar[HubState]
    content_host: ClassVar[str]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Answer with the metadata of a file. Faults do not apply.

        Only the hub's own library sends HEAD requests.
        """
        state = self.state
        name = unquote(self.path).removeprefix(f"/{state.repo}/resolve/{state.commit}/")
        if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
            return self._refuse(self.headers.get("Authorization"))
        content = state.files.get(name)
        if content is None:
            return self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        found = {"X-Repo-Commit": state.commit, "ETag": f'"{_blob(content)}"', "Content-Length": str(len(content))}
        return self._answer(200, b"", found)

    def do_GET(self) -> None:
        """Answer with the listing, a file, or a fault from the state."""
        state, path = self.state, unquote(self.path.split("?")[0])
        authorization = self.headers.get("Authorization")
        state.requests.append((path, self.headers.get("Range"), authorization))
        if state.statuses:
            return self._answer(state.statuses.pop(0), b"{}")
        if "/resolve/" in path or path.startswith("/content/"):
            state.encodings.append(self.headers.get("Accept-Encoding"))
        if path.startswith("/content/"):
            return self._large(path.removeprefix("/content/"))
        if state.token and authorization != f"Bearer {state.token}":
            return self._refuse(authorization)
        if path in (f"/api/models/{state.repo}/revision/{name}" for name in ("main", COMMIT)):
            metadata = "blobs=true" in self.path.lower()
            return self._answer(200, json.dumps(tree(state, metadata)).encode())
        if path == f"/api/models/{state.repo}/tree/{state.commit}":
            return self._answer(200, json.dumps(listing(state)).encode())
        if path.startswith(f"/api/models/{state.repo}/"):
            return self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        name = path.removeprefix(f"/{state.repo}/resolve/{state.commit}/")
        if name not in state.files:
            return self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})
        if LARGE in name:
            return self._answer(302, b"", {"Location": f"{self.content_host}/content/{name}?signature=secret"})
        return self._answer(200, state.files[name])

    def _refuse(self, authorization: str | None) -> None:
        if self.state.gated:
            return self._answer(403 if authorization else 401, b"", {"X-Error-Code": "GatedRepo"})
        wrong = {"X-Error-Message": "Invalid credentials in Authorization header"}
        return self._answer(401, b"", wrong if authorization else {"X-Error-Code": "RepoNotFound"})

    def _large(self, name: str) -> None:
        state = self.state
        state.reached.set()
        if state.hold:
            state.hold.wait(10)
        content = state.files[name]
        if state.damage:
            state.damage -= 1
            content = bytes([content[0] ^ 1]) + content[1:]
        if state.excess:
            state.excess -= 1
            content += b"more"
        begin = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")) if "Range" in self.headers else 0
        begin = begin if state.ranges else 0
        end = state.break_after.pop(0) if state.break_after else len(content)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin:end])
        self.close_connection = end < len(content)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class HubServer(ThreadingHTTPServer):
    """An HTTP server that logs no error when a client disconnects."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of closed connections, because tests close connections on purpose. Log all other errors."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def running(state: HubState, address: str = "127.0.0.1", content_host: str = "localhost") -> Iterator[str]:
    """Run the hub during the block and return its address. Redirects use the host name `content_host`."""
    handler = type("Handler", (HubHandler,), {"state": state})
    with HubServer((address, 0), handler) as server:
        handler.content_host = f"http://{content_host}:{server.server_port}"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
