"""spec.autoscaling: bounds, metrics and behavior of the HorizontalPodAutoscaler, written as in autoscaling/v2.

The API server accepts every HorizontalPodAutoscaler that is written from these types. The field `tolerance` is missing,
because its feature gate is off in some supported clusters.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from gaudi_operator.api.base import DNS_LABEL, ApiModel, number_as_text
from gaudi_operator.api.schema_keywords import Rule, config_with_rules
from gaudi_operator.api.v1alpha1.scaling import MAX_REPLICAS
from gaudi_operator.api.v1alpha1.selectors import LabelSelector

PositiveQuantity = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=32,
        pattern=r"^([0-9]*[1-9][0-9]*(\.[0-9]{1,3})?|[0-9]+\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))"
        r"(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
    ),
    BeforeValidator(number_as_text),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 1, "maximum": 10**15}),
]
"""A quantity above 0 that the API server does not round."""
PathSegment = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^./%][^/%]*$")]
"""A name that is valid in a path of the metrics APIs."""


class ResourceMetricName(StrEnum):
    """Resource of containers, CPU or memory, that the autoscaler measures."""

    CPU = "cpu"
    MEMORY = "memory"


class MetricTargetType(StrEnum):
    """Type of a metric's target. The type determines which field is set."""

    UTILIZATION = "Utilization"
    VALUE = "Value"
    AVERAGE_VALUE = "AverageValue"


class MetricTarget(ApiModel):
    """Target of a metric: the value that the autoscaler maintains."""

    model_config = config_with_rules(
        Rule(
            rule="has(self.value) == (self.type == 'Value')"
            " && has(self.averageValue) == (self.type == 'AverageValue')"
            " && has(self.averageUtilization) == (self.type == 'Utilization')",
            message="must set the field of its type, and no other: value, averageValue or averageUtilization",
        )
    )
    type: MetricTargetType = Field(
        description="Type: Utilization, Value or AverageValue. Only the field of this type is set."
    )
    value: PositiveQuantity | None = Field(None, description="Total value of the metric, above 0.")
    average_value: PositiveQuantity | None = Field(None, description="Average value per pod, above 0.")
    average_utilization: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Average usage per pod, in percent of requests."
    )


_OF_REQUESTS = Rule(
    rule="self.target.type != 'Value'", message="target.type must be Utilization or AverageValue for a resource"
)
_OF_ONE_OBJECT = Rule(rule="self.target.type != 'Utilization'", message="target.type must be Value or AverageValue")


class ResourceMetric(ApiModel):
    """CPU or memory usage of the pods, summed over their containers."""

    model_config = config_with_rules(_OF_REQUESTS)
    name: ResourceMetricName = Field(description="Name of the resource.")
    target: MetricTarget = Field(description="Target of type Utilization or AverageValue.")


class ContainerResourceMetric(ApiModel):
    """CPU or memory usage of one container of the pods."""

    model_config = config_with_rules(_OF_REQUESTS)
    container: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the container: runtime, or the name of a sidecar."
    )
    name: ResourceMetricName = Field(description="Name of the resource.")
    target: MetricTarget = Field(description="Target of type Utilization or AverageValue.")


class MetricIdentifier(ApiModel):
    """Name and labels of a metric that a metrics adapter serves."""

    name: PathSegment = Field(description="Name of the metric.")
    selector: LabelSelector | None = Field(
        None, description="Labels that select series of the metric. When left out: all series."
    )


class PodsMetric(ApiModel):
    """Metric of each pod. A metrics adapter serves the metric at custom.metrics.k8s.io."""

    model_config = config_with_rules(
        Rule(rule="self.target.type == 'AverageValue'", message="target.type must be AverageValue for a metric of pods")
    )
    metric: MetricIdentifier = Field(description="Metric of the pods.")
    target: MetricTarget = Field(description="Target of type AverageValue.")


class DescribedObject(ApiModel):
    """Object in the same namespace whose metric the autoscaler reads."""

    api_version: (
        Annotated[
            str,
            StringConstraints(
                min_length=1, max_length=317, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]{1,62}$"
            ),
        ]
        | None
    ) = Field(None, description="API version of the object, such as networking.k8s.io/v1. When left out: v1.")
    kind: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*$")] = Field(
        description="Kind of the object."
    )
    name: PathSegment = Field(description="Name of the object.")


class ObjectMetric(ApiModel):
    """Metric of one object. A metrics adapter serves the metric at custom.metrics.k8s.io."""

    model_config = config_with_rules(_OF_ONE_OBJECT)
    described_object: DescribedObject = Field(description="Object that the metric describes.")
    metric: MetricIdentifier = Field(description="Metric of the object.")
    target: MetricTarget = Field(description="Target of type Value or AverageValue.")


class ExternalMetric(ApiModel):
    """Metric from outside the cluster. A metrics adapter serves the metric at external.metrics.k8s.io."""

    model_config = config_with_rules(_OF_ONE_OBJECT)
    metric: MetricIdentifier = Field(description="External metric.")
    target: MetricTarget = Field(description="Target of type Value or AverageValue.")


class MetricType(StrEnum):
    """Type of a metric of the autoscaler. The type determines which field is set."""

    RESOURCE = "Resource"
    CONTAINER_RESOURCE = "ContainerResource"
    PODS = "Pods"
    OBJECT = "Object"
    EXTERNAL = "External"


_SOURCES = ("resource", "containerResource", "pods", "object", "external")


class Metric(ApiModel):
    """Metric with a target. If metrics require different numbers of replicas, the highest number applies."""

    model_config = config_with_rules(
        Rule(
            rule=" && ".join(f"has(self.{each}) == (self.type == '{each[0].upper()}{each[1:]}')" for each in _SOURCES),
            message=f"must set the field of its type, and no other: {', '.join(_SOURCES[:-1])} or {_SOURCES[-1]}",
        )
    )
    type: MetricType = Field(
        description="Type: Resource, ContainerResource, Pods, Object or External. Only the field of this type is set."
    )
    resource: ResourceMetric | None = Field(None, description="CPU or memory usage of the pods.")
    container_resource: ContainerResourceMetric | None = Field(
        None, description="CPU or memory usage of one container of the pods."
    )
    pods: PodsMetric | None = Field(None, description="Metric of each pod.")
    object: ObjectMetric | None = Field(None, description="Metric of another object in the namespace.")
    external: ExternalMetric | None = Field(None, description="Metric from outside the cluster.")


class ScalingPolicyType(StrEnum):
    """Unit of a scaling policy."""

    PODS = "Pods"
    PERCENT = "Percent"


class ScalingPolicy(ApiModel):
    """Maximum change of the number of replicas within a period."""

    type: ScalingPolicyType = Field(description="Unit of value: Pods, or Percent of the replicas.")
    value: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Maximum number or percentage of replicas that are added or removed per period."
    )
    period_seconds: Annotated[int, Field(ge=1, le=1800)] = Field(description="Length of the period in seconds.")


class SelectPolicy(StrEnum):
    """Rule that selects one of several scaling policies."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


StabilizationWindow = Annotated[int, Field(ge=0, le=3600)]


class ScalingRules(ApiModel):
    """Speed of scaling in one direction."""

    stabilization_window_seconds: StabilizationWindow | None = Field(
        None,
        description="Time in seconds during which past recommendations count. The smallest change among these"
        " recommendations applies.",
    )
    select_policy: SelectPolicy | None = Field(
        None,
        description="Policy that applies. Max: the largest change. Min: the smallest change. Disabled: no change."
        " Default: Max.",
    )
    policies: Annotated[tuple[ScalingPolicy, ...], Field(max_length=8)] = Field(
        (), description="Scaling policies. When left out: the defaults of Kubernetes."
    )


class Behavior(ApiModel):
    """Speed of scaling in both directions."""

    scale_up: ScalingRules = Field(
        ScalingRules(), description="Rules for adding replicas. When left out, the stabilization window is 0 seconds."
    )
    scale_down: ScalingRules = Field(
        ScalingRules(),
        description="Rules for removing replicas. When left out, the stabilization window is the measured warm-up"
        " time of a pod of the serving revision. This time is rounded up to a minute and limited to 300 to 3600"
        " seconds.",
    )


class Autoscaling(ApiModel):
    """HorizontalPodAutoscaler that writes replicas through the scale subresource (docs/how-to/scaling.md)."""

    model_config = config_with_rules(
        Rule(
            rule="self.minReplicas <= self.maxReplicas",
            message="spec.autoscaling.minReplicas must be at most maxReplicas",
        )
    )
    min_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(1, description="Minimum number of replicas.")
    max_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(description="Maximum number of replicas.")
    metrics: Annotated[tuple[Metric, ...], Field(max_length=8)] = Field(
        (),
        description="Metrics and their targets. When left out: the metric gaudi_requests_running of the pods, with an"
        " average value of 80 % of engine.maxNumSeqs x parallelism.data.",
    )
    behavior: Behavior = Field(Behavior(), description="Speed of scaling in both directions.")
