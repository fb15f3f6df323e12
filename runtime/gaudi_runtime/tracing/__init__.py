"""Traces by OpenTelemetry, if the environment names a collector (docs/how-to/monitoring.md, Traces).

collector   the address of the collector, by the variables that OpenTelemetry defines
tracing     the interface for the rest of the runtime: without a collector nothing is imported
otlp        sends spans, and lets the process end without waiting for a collector that does not answer
start       the spans of a start: its stages, and the buckets of each
requests    a span for each request of the model port
"""
