"""Where traces go, by the variables that OpenTelemetry defines for every program. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
GRPC = "grpc"
HTTP = "http/protobuf"


class Collector(NamedTuple):
    """`endpoint` is the whole address of an OTLP receiver, `protocol` how it is spoken to."""

    endpoint: str
    protocol: str

    @property
    def is_understood(self) -> bool:
        """Whether the protocol is one that can be spoken here."""
        return self.protocol in (HTTP, GRPC)


def collector(environment: Mapping[str, str]) -> Collector | None:
    """The collector that these variables name; None where they name none, or say that nothing is to be sent.

    A protocol that is not spoken here is named as it stands.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if "otlp" not in environment.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        return None
    protocol = environment.get(PROTOCOL_VARIABLE) or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or HTTP
    if endpoint := environment.get(ENDPOINT_VARIABLE):
        return Collector(endpoint, protocol)
    if base := environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return Collector(whole_address(base, protocol), protocol)
    return None


def whole_address(base: str, protocol: str) -> str:
    """The address for traces of a receiver that `base` names for all signals; one that has it already stays."""
    plain = base.rstrip("/")
    return base if protocol == GRPC or plain.endswith("/v1/traces") else f"{plain}/v1/traces"
