"""Traces by OpenTelemetry, where the environment names a collector (docs/how-to/monitoring.md, Traces).

collector   where to, by the variables that OpenTelemetry itself defines
tracing     what the rest of the runtime says to it: nothing is imported, and nothing done, without a collector
otlp        what sends spans, and how the process ends without waiting for a collector that does not answer
start       the spans of a start: its stages, and under them the buckets
requests    a span for each request of the model port
"""
