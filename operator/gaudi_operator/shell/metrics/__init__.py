"""Logs, metrics and probes of this process, and metrics of the resources.

monitoring        log lines, metrics and probes
resource_metrics  metrics of each resource, read from its status
"""
