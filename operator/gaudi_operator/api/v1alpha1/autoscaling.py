"""spec.autoscaling: bounds, metrics and behavior of the HorizontalPodAutoscaler, written as in autoscaling/v2.

Whatever passes these types and rules is valid for the API server as well: the autoscaler that the operator writes is
never refused. `tolerance` is left out: it is behind a feature gate that not every supported cluster has.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from gaudi_operator.api.base import DNS_LABEL, ApiModel, Rule, number_as_text, validated_by
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
"""An amount above 0 in Kubernetes' notation, without a part that the API server would round."""
PathSegment = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^./%][^/%]*$")]
"""A name that may stand in a path of the metrics APIs."""


class ResourceMetricName(StrEnum):
    """The resources that Kubernetes measures of containers."""

    CPU = "cpu"
    MEMORY = "memory"


class MetricTargetType(StrEnum):
    """Which field of a target counts."""

    UTILIZATION = "Utilization"
    VALUE = "Value"
    AVERAGE_VALUE = "AverageValue"


class MetricTarget(ApiModel):
    """The value of a metric that the autoscaler aims for."""

    model_config = validated_by(
        Rule(
            rule="has(self.value) == (self.type == 'Value')"
            " && has(self.averageValue) == (self.type == 'AverageValue')"
            " && has(self.averageUtilization) == (self.type == 'Utilization')",
            message="needs exactly the field of its type: value, averageValue or averageUtilization",
        )
    )
    type: MetricTargetType = Field(description="Which of the other fields is set.")
    value: PositiveQuantity | None = Field(None, description="The metric as it is, above 0.")
    average_value: PositiveQuantity | None = Field(None, description="The metric per pod, above 0.")
    average_utilization: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="The resource per pod, in percent of what its containers request."
    )


_OF_REQUESTS = Rule(
    rule="self.target.type != 'Value'", message="target.type must be Utilization or AverageValue for a resource"
)
_OF_ONE_OBJECT = Rule(rule="self.target.type != 'Utilization'", message="target.type must be Value or AverageValue")


class ResourceMetric(ApiModel):
    """A resource of the pods, of all their containers."""

    model_config = validated_by(_OF_REQUESTS)
    name: ResourceMetricName = Field(description="Name of the resource.")
    target: MetricTarget = Field(description="Utilization or AverageValue.")


class ContainerResourceMetric(ApiModel):
    """A resource of one container of the pods."""

    model_config = validated_by(_OF_REQUESTS)
    container: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the container: runtime, or that of a sidecar."
    )
    name: ResourceMetricName = Field(description="Name of the resource.")
    target: MetricTarget = Field(description="Utilization or AverageValue.")


class MetricIdentifier(ApiModel):
    """A metric that an adapter serves."""

    name: PathSegment = Field(description="Name of the metric.")
    selector: LabelSelector | None = Field(None, description="Series of the metric, by their labels.")


class PodsMetric(ApiModel):
    """A metric of the pods, which custom.metrics.k8s.io serves."""

    model_config = validated_by(
        Rule(rule="self.target.type == 'AverageValue'", message="target.type must be AverageValue for a metric of pods")
    )
    metric: MetricIdentifier = Field(description="The metric.")
    target: MetricTarget = Field(description="AverageValue.")


class DescribedObject(ApiModel):
    """Another object in the same namespace."""

    api_version: (
        Annotated[
            str,
            StringConstraints(
                min_length=1, max_length=317, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]{1,62}$"
            ),
        ]
        | None
    ) = Field(None, description="API version of the object; v1 when left out.")
    kind: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*$")] = Field(
        description="Kind of the object."
    )
    name: PathSegment = Field(description="Name of the object.")


class ObjectMetric(ApiModel):
    """A metric of another object, which custom.metrics.k8s.io serves."""

    model_config = validated_by(_OF_ONE_OBJECT)
    described_object: DescribedObject = Field(description="The object that has the metric.")
    metric: MetricIdentifier = Field(description="The metric.")
    target: MetricTarget = Field(description="Value or AverageValue.")


class ExternalMetric(ApiModel):
    """A metric of no object of the cluster, which external.metrics.k8s.io serves."""

    model_config = validated_by(_OF_ONE_OBJECT)
    metric: MetricIdentifier = Field(description="The metric.")
    target: MetricTarget = Field(description="Value or AverageValue.")


class MetricType(StrEnum):
    """Which field of a metric counts."""

    RESOURCE = "Resource"
    CONTAINER_RESOURCE = "ContainerResource"
    PODS = "Pods"
    OBJECT = "Object"
    EXTERNAL = "External"


_SOURCES = ("resource", "containerResource", "pods", "object", "external")


class Metric(ApiModel):
    """A metric with its target; the one that asks for most replicas counts."""

    model_config = validated_by(
        Rule(
            rule=" && ".join(f"has(self.{each}) == (self.type == '{each[0].upper()}{each[1:]}')" for each in _SOURCES),
            message=f"needs exactly the field of its type: {', '.join(_SOURCES[:-1])} or {_SOURCES[-1]}",
        )
    )
    type: MetricType = Field(description="Which of the other fields is set.")
    resource: ResourceMetric | None = Field(None, description="CPU or memory of the pods.")
    container_resource: ContainerResourceMetric | None = Field(
        None, description="CPU or memory of one container of the pods."
    )
    pods: PodsMetric | None = Field(None, description="A metric of the pods.")
    object: ObjectMetric | None = Field(None, description="A metric of another object in the namespace.")
    external: ExternalMetric | None = Field(None, description="A metric of something outside of the cluster.")


class ScalingPolicyType(StrEnum):
    """What a policy counts in."""

    PODS = "Pods"
    PERCENT = "Percent"


class ScalingPolicy(ApiModel):
    """How many replicas may come or go within a period."""

    type: ScalingPolicyType = Field(description="Pods, or percent of the replicas.")
    value: Annotated[int, Field(ge=1, le=100_000)] = Field(description="How many of them.")
    period_seconds: Annotated[int, Field(ge=1, le=1800)] = Field(description="Length of the period, in seconds.")


class SelectPolicy(StrEnum):
    """Which of several policies counts."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


StabilizationWindow = Annotated[int, Field(ge=0, le=3600)]


class ScalingRules(ApiModel):
    """How replicas are changed in one direction."""

    stabilization_window_seconds: StabilizationWindow | None = Field(
        None, description="How long past recommendations count: the least change among them applies."
    )
    select_policy: SelectPolicy | None = Field(
        None, description="The policy that counts: that of the most change, of the least, or none. Max when left out."
    )
    policies: Annotated[tuple[ScalingPolicy, ...], Field(max_length=8)] = Field(
        (), description="Limits of the speed; those of Kubernetes when left out."
    )


class Behavior(ApiModel):
    """How fast the autoscaler adds and removes replicas."""

    scale_up: ScalingRules = Field(
        ScalingRules(), description="Rules for more replicas; the window is 0 seconds when left out."
    )
    scale_down: ScalingRules = Field(
        ScalingRules(),
        description="Rules for fewer replicas. When left out, the window is the warm-up that a pod of the serving"
        " revision measured, rounded up to a minute, at least 300 and at most 3600 seconds.",
    )


class Autoscaling(ApiModel):
    """A HorizontalPodAutoscaler on the scale subresource, which then writes replicas (docs/how-to/scaling.md)."""

    model_config = validated_by(
        Rule(
            rule="self.minReplicas <= self.maxReplicas",
            message="spec.autoscaling.minReplicas must be at most maxReplicas",
        )
    )
    min_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(1, description="Fewest replicas.")
    max_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = Field(description="Most replicas.")
    metrics: Annotated[tuple[Metric, ...], Field(max_length=8)] = Field(
        (),
        description="Metrics and their targets. When left out: the metric gaudi_requests_running of the pods, with an"
        " average of 80 % of engine.maxNumSeqs.",
    )
    behavior: Behavior = Field(Behavior(), description="How fast replicas are added and removed.")
