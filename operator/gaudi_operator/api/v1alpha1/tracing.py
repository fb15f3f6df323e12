"""Where pods send their traces: an OTLP receiver, such as an OpenTelemetry collector (docs/how-to/monitoring.md)."""

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, Percent, Rule, rules
from gaudi_runtime.tracing.collector import GRPC, HTTP, Collector, whole_address

GRPC_PORT = 4317
"""That of OTLP over gRPC in every collector."""

OtlpAddress = Annotated[
    str,
    StringConstraints(
        max_length=512, pattern=r"^https?://([-A-Za-z0-9._]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?$"
    ),
    Field(
        json_schema_extra=rules(
            Rule(
                rule="self.startsWith('https://') || self.startsWith('http://')",
                message="must start with https:// or http://, such as http://otel-collector.monitoring:4317",
            ),
            Rule(
                rule="!self.contains('@') && !self.contains('?')",
                message="must not carry a password or a key: put the header of your collector into a Secret, and name"
                " it in engine.env as OTEL_EXPORTER_OTLP_HEADERS",
            ),
        )
    ),
]


class OtlpProtocol(StrEnum):
    """How OTLP is spoken, by OpenTelemetry's own names."""

    HTTP = HTTP
    GRPC = GRPC


class Tracing(ApiModel):
    """Traces of each start, one span a stage and bucket, and of requests."""

    endpoint: OtlpAddress = Field(
        description="Address of an OTLP receiver, such as http://otel-collector.monitoring:4317. Over HTTP /v1/traces"
        " is added where it is missing."
    )
    protocol: OtlpProtocol | None = Field(
        None, description="How it is spoken to; left out it is grpc at port 4317 and http/protobuf at others."
    )
    sampling_percent: Percent = Field(
        100,
        description="Share of requests that are traced where the caller has not decided; each start is traced.",
    )

    @property
    def collector(self) -> Collector:
        """The whole address and the protocol."""
        protocol = self.protocol or (GRPC if urlsplit(self.endpoint).port == GRPC_PORT else HTTP)
        return Collector(whole_address(self.endpoint, protocol), str(protocol))
