"""The HTTP servers of an instance: the status port and the model port.

server        one uvicorn server in our event loop
certificate   TLS of the model port, whose files change while the server runs
connection    the limits of a connection, and the limit of their number; handshake: before TLS is established
metrics       the metrics for Prometheus
status_api    the status port: report, probes, metrics
openai_api    the model port, for engines without an application of their own
"""
