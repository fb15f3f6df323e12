"""What this process tells of itself and of the resources.

monitoring        log lines, metrics and probes
resource_metrics  metrics of each resource, read from its status
"""
