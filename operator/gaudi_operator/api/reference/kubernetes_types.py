"""The types of Kubernetes that fields of the API have. The reference pages list their members once.

A type is recognised by its members, because the schema that the API server enforces has no names of types.
"""

from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel

from gaudi_operator.api.base import SecretKey
from gaudi_operator.api.schema import Schema, structural_schema
from gaudi_operator.api.v1alpha1.autoscaling import Metric, MetricIdentifier, MetricTarget, ScalingRules
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources, EnvVar, SideContainer
from gaudi_operator.api.v1alpha1.pods.pod import SecretName
from gaudi_operator.api.v1alpha1.pods.scheduling import (
    Affinity,
    NodeSelectorTerm,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from gaudi_operator.api.v1alpha1.pods.volumes import KeyToPath, Volume, VolumeMount
from gaudi_operator.api.v1alpha1.selectors import LabelSelector

_KUBERNETES = "https://kubernetes.io/docs/reference/kubernetes-api"
_POD = "core/pod-v1"
_AUTOSCALER = "autoscaling/horizontal-pod-autoscaler-v2"


@dataclass(frozen=True)
class KubernetesType:
    """A Kubernetes type, with the members in `model` that the API offers.

    `page` is the page of the Kubernetes API reference. `restriction` describes in sentences what the API does not
    offer. `differences` contains the paths of members whose meaning or default differs from Kubernetes.
    """

    name: str
    model: type[BaseModel]
    page: str
    restriction: str = ""
    differences: frozenset[str] = frozenset()

    @cached_property
    def schema(self) -> Schema:
        """The structural schema of the members."""
        return structural_schema(self.model)

    @property
    def reference_url(self) -> str:
        """The address of the type in the Kubernetes API reference."""
        return f"{_KUBERNETES}/{self.page}/#{self.name}"


KUBERNETES_TYPES = (
    KubernetesType("Affinity", Affinity, _POD),
    KubernetesType(
        "Container",
        SideContainer,
        _POD,
        restriction="Ports, probes and lifecycle hooks are not supported. The operator sets the security context.",
        differences=frozenset({"image", "imagePullPolicy", "env", "volumeMounts"}),
    ),
    KubernetesType("EnvVar", EnvVar, _POD),
    KubernetesType("HPAScalingRules", ScalingRules, _AUTOSCALER, restriction="`tolerance` is not supported."),
    KubernetesType("KeyToPath", KeyToPath, _POD, restriction="`mode` is not supported."),
    KubernetesType("LabelSelector", LabelSelector, "definitions/label-selector-v1-meta"),
    KubernetesType("LocalObjectReference", SecretName, "definitions/local-object-reference-v1"),
    KubernetesType("MetricIdentifier", MetricIdentifier, _AUTOSCALER),
    KubernetesType("MetricSpec", Metric, _AUTOSCALER, differences=frozenset({"containerResource.container"})),
    KubernetesType("MetricTarget", MetricTarget, _AUTOSCALER),
    KubernetesType("NodeSelectorTerm", NodeSelectorTerm, "definitions/node-selector-term-v1"),
    KubernetesType(
        "PodAffinityTerm",
        PodAffinityTerm,
        _POD,
        restriction="`matchLabelKeys` and `mismatchLabelKeys` are not supported.",
        differences=frozenset({"labelSelector"}),
    ),
    KubernetesType(
        "ResourceRequirements",
        ContainerResources,
        _POD,
        restriction="Request cards in `spec.accelerator`.",
    ),
    KubernetesType("SecretKeySelector", SecretKey, _POD, restriction="`optional` is not supported."),
    KubernetesType("Toleration", Toleration, "definitions/toleration-v1"),
    KubernetesType(
        "TopologySpreadConstraint",
        TopologySpreadConstraint,
        _POD,
        differences=frozenset({"labelSelector", "matchLabelKeys"}),
    ),
    KubernetesType(
        "Volume",
        Volume,
        _POD,
        restriction="All kinds of volumes meet the Pod Security level restricted. `hostPath` and service account tokens"
        " are not supported.",
        differences=frozenset({"name", "persistentVolumeClaim.claimName"}),
    ),
    KubernetesType("VolumeMount", VolumeMount, _POD, differences=frozenset({"name", "readOnly"})),
)
"""The types in the order of their names."""


def find_kubernetes_type(schema: Schema) -> KubernetesType | None:
    """Return the Kubernetes type whose members equal the members of an object schema; None if no type matches."""
    members = schema.get("properties")
    if members is None:
        return None
    return next((candidate for candidate in KUBERNETES_TYPES if candidate.schema["properties"] == members), None)
