"""A collector that receives traces by OTLP over HTTP, and stores every span."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span. IDs are in hex. The parent of a root span is empty. Times are in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    begin: int
    end: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    error: str | None


class Receiver:
    """The received exports. Several threads may call the methods concurrently."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Received] = []
        self.bodies: list[bytes] = []

    def take(self, body: bytes) -> None:
        """Store one export."""
        self.bodies.append(body)
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _plain(part.resource.attributes)
            self.spans += [_received(span, resource) for scope in part.scope_spans for span in scope.spans]

    def named(self, *names: str) -> list[Received]:
        """Return the spans with these names, ordered by their start."""
        return sorted((each for each in list(self.spans) if each.name in names), key=lambda each: each.begin)


def _received(span: Any, resource: dict[str, Any]) -> Received:
    return Received(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        begin=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_plain(span.attributes),
        resource=resource,
        error=span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else None,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextlib.contextmanager
def otlp_receiver(address: str = "127.0.0.1") -> Iterator[Receiver]:
    """Run a collector on a free port during the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            receiver.take(self.rfile.read(int(self.headers["content-length"])))
            with contextlib.suppress(ConnectionError):  # The sender may have ended meanwhile.
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the library
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        receiver.url = f"http://{address}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
