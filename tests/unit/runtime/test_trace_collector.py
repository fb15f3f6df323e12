"""The collector that OpenTelemetry's variables select."""

import pytest

from gaudi_runtime.trace_collector import TraceCollector, read_trace_collector

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}
OF_TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:4317"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (BASE, TraceCollector("http://collector:4318/v1/traces", "http/protobuf")),
        ({**BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, TraceCollector("http://collector:4318/", "grpc")),
        ({**BASE, **OF_TRACES}, TraceCollector("http://traces:4317", "http/protobuf")),
        ({**OF_TRACES, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, TraceCollector("http://traces:4317", "grpc")),
        ({**BASE, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**BASE, "OTEL_SDK_DISABLED": "true"}, None),
        ({}, None),
    ],
    ids=["for all signals", "over gRPC", "for traces", "for traces over gRPC", "no exporter", "disabled", "nothing"],
)
def test_collector_is_read_from_the_otel_variables(variables: dict[str, str], found: TraceCollector | None) -> None:
    assert read_trace_collector(variables) == found


def test_unsupported_protocol_is_reported() -> None:
    found = read_trace_collector({**BASE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
    assert found is not None
    assert not found.is_supported
