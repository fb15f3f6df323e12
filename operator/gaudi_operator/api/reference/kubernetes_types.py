"""The types of Kubernetes that fields of the API have. The reference lists where they differ from Kubernetes.

A type is recognised by its members, because the schema that the API server enforces has no names of types.
"""

from dataclasses import dataclass
from functools import cached_property

from pydantic import BaseModel

from gaudi_operator.api.base import SecretKey
from gaudi_operator.api.structural_schema import Schema, structural_schema
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources, EnvVar, SideContainer
from gaudi_operator.api.v1alpha1.pods.pod import SecretName
from gaudi_operator.api.v1alpha1.pods.scheduling import Toleration, TopologySpreadConstraint
from gaudi_operator.api.v1alpha1.pods.volumes import Volume, VolumeMount
from gaudi_operator.api.v1alpha1.selectors import LabelSelector

_KUBERNETES = "https://kubernetes.io/docs/reference/kubernetes-api"
_POD = "core/pod-v1"


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
    KubernetesType(
        "Container",
        SideContainer,
        _POD,
        restriction="The operator sets the security context and refuses another one. The policy for the operator's"
        " account refuses ports of the node, and probes or hooks that reach another host.",
        differences=frozenset({"volumeMounts"}),
    ),
    KubernetesType("EnvVar", EnvVar, _POD),
    KubernetesType("LabelSelector", LabelSelector, "definitions/label-selector-v1-meta"),
    KubernetesType("LocalObjectReference", SecretName, "definitions/local-object-reference-v1"),
    KubernetesType(
        "ResourceRequirements",
        ContainerResources,
        _POD,
        restriction="Request cards in `spec.accelerator`.",
    ),
    KubernetesType("SecretKeySelector", SecretKey, _POD, restriction="`optional` is not supported."),
    KubernetesType("Toleration", Toleration, "definitions/toleration-v1"),
    KubernetesType("TopologySpreadConstraint", TopologySpreadConstraint, _POD),
    KubernetesType(
        "Volume",
        Volume,
        _POD,
        restriction="The policy for the operator's account refuses `hostPath`, service account tokens and kinds of"
        " volumes that the Pod Security level restricted refuses.",
        differences=frozenset({"name"}),
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
