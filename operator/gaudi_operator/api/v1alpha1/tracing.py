"""spec.tracing, and the OTLP receiver of traces that a class or the installation names (docs/how-to/monitoring.md)."""

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, Percent
from gaudi_operator.api.schema_keywords import SchemaRule, rules_keyword
from gaudi_runtime.trace_collector import GRPC, HTTP, TraceCollector, trace_collector_endpoint

GRPC_PORT = 4317
"""The port of OTLP over gRPC."""

OtlpAddress = Annotated[
    str,
    StringConstraints(
        max_length=512, pattern=r"^https?://([-A-Za-z0-9._]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?$"
    ),
    Field(
        json_schema_extra=rules_keyword(
            SchemaRule(
                rule="self.startsWith('https://') || self.startsWith('http://')",
                message="must start with https:// or http://, such as http://otel-collector.monitoring:4317",
            ),
            SchemaRule(
                rule="!self.contains('@') && !self.contains('?')",
                message="must not contain a password or a key: put the header of your collector into a Secret, and set"
                " it in engine.env as OTEL_EXPORTER_OTLP_HEADERS",
            ),
        )
    ),
]


class OtlpProtocol(StrEnum):
    """Protocol of OTLP, by the names of OpenTelemetry."""

    HTTP = HTTP
    GRPC = GRPC


class Tracing(ApiModel):
    """OpenTelemetry traces of engine vllm. Pods send traces only if the class or the installation names a receiver."""

    sampling_percent: Percent | None = Field(
        None,
        description="Share of requests that are traced, in percent, unless the caller has decided. When left out: the"
        " share of the class or of the installation.",
    )


class TraceReceiver(ApiModel):
    """OTLP receiver of the traces of engine vllm: of its requests and of its start."""

    endpoint: OtlpAddress = Field(
        description="Address of an OTLP receiver, such as http://otel-collector.monitoring:4317. For HTTP, /v1/traces"
        " is appended if it is missing."
    )
    protocol: OtlpProtocol | None = Field(
        None, description="Protocol of OTLP. When left out: grpc for port 4317, http/protobuf for every other port."
    )
    sampling_percent: Percent = Field(100, description="Default of spec.tracing.samplingPercent.")

    @property
    def collector(self) -> TraceCollector:
        """The complete address and the protocol."""
        protocol = self.protocol or (GRPC if urlsplit(self.endpoint).port == GRPC_PORT else HTTP)
        return TraceCollector(trace_collector_endpoint(self.endpoint, protocol), str(protocol))
