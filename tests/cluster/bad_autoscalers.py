"""Specs whose HorizontalPodAutoscaler would be invalid. The API server must refuse such a resource."""

from typing import Any

from tests.cluster.bad_object import Bad
from tests.support.metrics import running_requests


def scaled(**fields: Any) -> dict[str, Any]:
    """Return a spec with `fields` in spec.autoscaling."""
    return {"autoscaling": {"maxReplicas": 2, **fields}}


def by_metric(kind: str, **source: Any) -> dict[str, Any]:
    """Return a spec with one autoscaling metric of type `kind`."""
    return scaled(metrics=[{"type": kind, **source}])


def by_cpu(**target: Any) -> dict[str, Any]:
    """Return a spec that scales on the CPU usage of the pods with the given target."""
    return by_metric("Resource", resource={"name": "cpu", "target": target})


def by_external(**target: Any) -> dict[str, Any]:
    """Return a spec that scales on the external metric `queue` with the given target."""
    return by_metric("External", external={"metric": {"name": "queue"}, "target": target})


def by_pods(name: str, target: dict[str, Any]) -> dict[str, Any]:
    """Return a spec that scales on the metric `name` of the pods."""
    return by_metric("Pods", pods={"metric": {"name": name}, "target": target})


def by_object(**described: Any) -> dict[str, Any]:
    """Return a spec that scales on a metric of another object."""
    target = {"type": "Value", "value": 1}
    return by_metric("Object", object={"describedObject": described, "metric": {"name": "a"}, "target": target})


def scale_down(**rules: Any) -> dict[str, Any]:
    """Return a spec with `rules` in autoscaling.behavior.scaleDown."""
    return scaled(behavior={"scaleDown": rules})


AVERAGE = {"type": "AverageValue", "averageValue": 1}
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
ONE_SOURCE = "must set the field of its type, and no other: resource, containerResource, pods, object or external"
ONE_TARGET = "must set the field of its type, and no other: value, averageValue or averageUtilization"

AUTOSCALERS = (
    Bad(
        "autoscaling_min_above_max",
        "minReplicas must be at most maxReplicas",
        scaled(minReplicas=3),
    ),
    Bad("autoscaling_without_max", "maxReplicas: Required value", {"autoscaling": {"minReplicas": 1}}),
    Bad("autoscaling_from_zero", "minReplicas in body should be greater than or equal to 1", scaled(minReplicas=0)),
    Bad("too_many_metrics", "must have at most 8 items", scaled(metrics=[running_requests(1)] * 9)),
    Bad("metric_without_type", "metrics[0].type: Required value", scaled(metrics=[{}])),
    Bad("metric_with_unknown_type", 'Unsupported value: "Node"', by_metric("Node")),
    Bad("metric_without_source", ONE_SOURCE, by_metric("Pods")),
    Bad(
        "metric_with_the_source_of_another_type",
        ONE_SOURCE,
        by_metric("Pods", resource={"name": "cpu", "target": UTILIZATION}),
    ),
    Bad(
        "metric_with_two_sources",
        ONE_SOURCE,
        scaled(metrics=[{**running_requests(1), "resource": {"name": "cpu", "target": UTILIZATION}}]),
    ),
    Bad("target_without_value", ONE_TARGET, by_cpu(type="Utilization")),
    Bad("target_with_the_value_of_another_type", ONE_TARGET, by_cpu(type="Utilization", averageValue=1)),
    Bad("target_with_two_values", ONE_TARGET, by_external(**AVERAGE, value=1)),
    Bad("target_of_zero", "should be greater than or equal to 1", by_external(type="Value", value=0)),
    Bad("target_of_zero_as_text", "should match", by_external(type="Value", value="0.00")),
    Bad("target_below_zero", "should match", by_external(type="Value", value="-1")),
    Bad(
        "target_of_zero_percent",
        "should be greater than or equal to 1",
        by_cpu(type="Utilization", averageUtilization=0),
    ),
    Bad("value_target_of_a_resource", "target.type must be Utilization or AverageValue", by_cpu(type="Value", value=1)),
    Bad(
        "utilization_target_of_an_external_metric",
        "target.type must be Value or AverageValue",
        by_external(**UTILIZATION),
    ),
    Bad("utilization_target_of_pods", "target.type must be AverageValue", by_pods("a", UTILIZATION)),
    Bad("metric_name_with_a_slash", "metric.name in body should match", by_pods("a/b", AVERAGE)),
    Bad("metric_name_with_percent", "metric.name in body should match", by_pods("a%b", AVERAGE)),
    Bad("metric_name_is_two_dots", "metric.name in body should match", by_pods("..", AVERAGE)),
    Bad(
        "unknown_resource",
        'Unsupported value: "gpu"',
        by_metric("Resource", resource={"name": "gpu", "target": UTILIZATION}),
    ),
    Bad(
        "container_without_name",
        "containerResource.container: Required value",
        by_metric("ContainerResource", containerResource={"name": "cpu", "target": UTILIZATION}),
    ),
    Bad("object_without_name", "describedObject.name: Required value", by_object(kind="Ingress")),
    Bad(
        "object_with_invalid_version",
        "apiVersion in body should match",
        by_object(apiVersion="a/b/v1", kind="A", name="a"),
    ),
    Bad("kind_with_a_slash", "describedObject.kind in body should match", by_object(kind="a/b", name="a")),
    Bad("window_too_long", "should be less than or equal to 3600", scale_down(stabilizationWindowSeconds=3601)),
    Bad("unknown_select_policy", 'Unsupported value: "Some"', scale_down(selectPolicy="Some")),
    Bad(
        "policy_with_value_zero",
        "value in body should be greater",
        scale_down(policies=[{"type": "Pods", "value": 0, "periodSeconds": 1}]),
    ),
    Bad(
        "policy_period_too_long",
        "should be less than or equal to 1800",
        scale_down(policies=[{"type": "Percent", "value": 1, "periodSeconds": 1801}]),
    ),
    Bad(
        "target_of_an_earlier_release",
        'unknown field "spec.autoscaling.targetRunningRequests"',
        scaled(targetRunningRequests=8),
    ),
)
