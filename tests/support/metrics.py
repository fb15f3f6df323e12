"""Example metrics and behavior of an autoscaler, with every type and field of spec.autoscaling."""

from tests.support.builders import Object


def running_requests(average: int | str) -> Object:
    """Return an autoscaler metric of type Pods for running requests. `average` is the target."""
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Pods", "pods": {"metric": {"name": "gaudi_requests_running"}, "target": target}}


METRICS: list[Object] = [
    running_requests("1500m"),
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
    {
        "type": "ContainerResource",
        "containerResource": {
            "container": "runtime",
            "name": "memory",
            "target": {"type": "AverageValue", "averageValue": "1.5Gi"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"},
            "metric": {"name": "requests-per-second"},
            "target": {"type": "Value", "value": "0.5"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {
                "name": "queue_length",
                "selector": {
                    "matchLabels": {"queue": "chat"},
                    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                },
            },
            "target": {"type": "AverageValue", "averageValue": "99999999999999999999999E"},
        },
    },
]
BEHAVIOR: Object = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Min",
        "policies": [
            {"type": "Pods", "value": 2, "periodSeconds": 1800},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {"stabilizationWindowSeconds": 3600, "selectPolicy": "Disabled"},
}
