"""Logs, metrics and probes of this process, and metrics of the resources.

logs              log lines
monitoring        metrics and probes
resource_metrics  metrics of each resource, read from its status
"""
