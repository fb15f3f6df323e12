"""A trace on disk, read as often as a question needs: it is streamed, never kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import ConfigError, TraceUnreadable
from gaudi_runtime.traffic.batching import Pace
from gaudi_runtime.traffic.columns import ColumnNames
from gaudi_runtime.traffic.halves import count_requests, first_half
from gaudi_runtime.traffic.histogram import Traffic
from gaudi_runtime.traffic.learning import traffic_of
from gaudi_runtime.traffic.order import in_order
from gaudi_runtime.traffic.trace import Request, read_trace


@dataclass(frozen=True)
class Server:
    """The server whose batches a trace is turned into."""

    limits: Limits
    kv_blocks: int
    pace: Pace


@dataclass(frozen=True)
class TraceFile:
    """A CSV of requests. Every method raises ConfigError with the file's name when it cannot be read."""

    path: Path
    names: ColumnNames

    def requests(self) -> Iterator[Request]:
        """The requests in order of arrival."""
        if self.path.exists() and not self.path.is_file():
            raise ConfigError(f"{self.path} is no file; a trace is read more than once, so save it first")
        try:
            with self.path.open("rb") as lines:
                yield from in_order(read_trace(lines, self.names))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read: {error.strerror}") from error
        except TraceUnreadable as error:
            raise ConfigError(f"trace {self.path} {error}") from error

    def traffic(self, server: Server) -> Traffic:
        """Traffic of all requests."""
        return traffic_of(self.requests(), server.limits, server.kv_blocks, server.pace)

    def halves(self, server: Server) -> tuple[Traffic, Traffic]:
        """Traffic of the earlier and of the later half of the requests."""
        try:
            count = count_requests(self.requests())
        except TraceUnreadable as error:
            raise ConfigError(f"trace {self.path} {error}") from error
        requests = self.requests()
        earlier = traffic_of(first_half(requests, count), server.limits, server.kv_blocks, server.pace)
        return earlier, traffic_of(requests, server.limits, server.kv_blocks, server.pace)
