"""The trace collector, from the variables that OpenTelemetry defines for every program. No side effects."""

from collections.abc import Mapping
from typing import NamedTuple

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
GRPC = "grpc"
HTTP = "http/protobuf"


class TraceCollector(NamedTuple):
    """The trace collector: the complete address of an OTLP receiver, and its protocol."""

    endpoint: str
    protocol: str

    @property
    def is_supported(self) -> bool:
        """Return whether this runtime supports the protocol."""
        return self.protocol in (HTTP, GRPC)


def read_trace_collector(environment: Mapping[str, str]) -> TraceCollector | None:
    """Return the trace collector from the environment; None if no collector is set or traces are disabled.

    An unsupported protocol is returned unchanged.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if "otlp" not in environment.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        return None
    protocol = environment.get(PROTOCOL_VARIABLE) or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or HTTP
    if endpoint := environment.get(ENDPOINT_VARIABLE):
        return TraceCollector(endpoint, protocol)
    if base_endpoint := environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return TraceCollector(trace_collector_endpoint(base_endpoint, protocol), protocol)
    return None


def trace_collector_endpoint(base_endpoint: str, protocol: str) -> str:
    """Return the address for traces. `base_endpoint` is the receiver's address for all signals."""
    address = base_endpoint.rstrip("/")
    return base_endpoint if protocol == GRPC or address.endswith("/v1/traces") else f"{address}/v1/traces"
