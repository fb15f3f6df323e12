"""The HTTP servers of an instance: the status port and the model port.

server        one uvicorn server in our event loop
certificate   TLS of the model port, whose files change while it runs
connection    the bounds of a connection, and of how many there are
metrics       what Prometheus scrapes
status_api    the status port: report, probes, metrics
openai_api    the model port, for engines that bring no application of their own
"""
