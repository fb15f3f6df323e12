"""OpenTelemetry traces, if the environment sets a collector (docs/how-to/monitoring.md, Traces).

collector   the address of the collector, from the variables that OpenTelemetry defines
tracing     the interface for the rest of the runtime; without a collector it imports nothing
otlp        sends spans; the process can exit without waiting for a collector that does not answer
start       the spans of a start: its stages and their buckets
requests    one span for each request of the model port
"""
