"""spec.engine.env, and the init containers and sidecars of spec.pod, as in a Pod.

The operator sets their security context (core/rendering/container.py), so that no container weakens its pod.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from gaudi_operator.api.base import DNS_LABEL, ApiModel, ConfigMapKey, ImageReference, Quantity, SecretKey
from gaudi_operator.api.schema_keywords import Rule, config_with_rules, list_map_keywords, rules_keyword
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.pods.volumes import LABEL_OR_ANNOTATION, VolumeMounts

VariableName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, StringConstraints(max_length=1024)]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class EnvSecretKey(SecretKey):
    """Key of a Secret, as the source of a container's environment variable. Only the kubelet reads the key."""

    optional: bool | None = Field(None, description="Whether the container starts without the key. Default: false.")


class EnvConfigMapKey(ConfigMapKey):
    """Key of a ConfigMap, as the source of a container's environment variable. Only the kubelet reads the key."""

    optional: bool | None = Field(None, description="Whether the container starts without the key. Default: false.")


class EnvField(ApiModel):
    """Field of the pod, as the source of a container's environment variable."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    field_path: Annotated[
        str,
        StringConstraints(
            min_length=1,
            max_length=340,
            pattern=rf"^(metadata\.(name|namespace|uid)|{LABEL_OR_ANNOTATION}|spec\.(nodeName|serviceAccountName)"
            r"|status\.(hostIP|podIP|podIPs))$",
        ),
    ] = Field(
        description="Path of the field: metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'],"
        " metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP, status.podIP"
        " or status.podIPs."
    )


class ResourceName(StrEnum):
    """Request or limit of a container."""

    CPU_LIMIT = "limits.cpu"
    MEMORY_LIMIT = "limits.memory"
    EPHEMERAL_STORAGE_LIMIT = "limits.ephemeral-storage"
    CPU_REQUEST = "requests.cpu"
    MEMORY_REQUEST = "requests.memory"
    EPHEMERAL_STORAGE_REQUEST = "requests.ephemeral-storage"


class EnvResource(ApiModel):
    """Request or limit of a container, as the source of its environment variable."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    resource: ResourceName = Field(
        description="Request or limit. Values of CPU are in whole cores, other values are in bytes."
    )


class EnvVarSource(ApiModel):
    """Source of the value of a container's environment variable. Exactly one member is set."""

    model_config = config_with_rules(
        Rule(
            rule="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef),"
            " has(self.resourceFieldRef)].filter(x, x).size() == 1",
            message="must name exactly one of secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef",
        )
    )
    secret_key_ref: EnvSecretKey | None = Field(None, description="Key of a Secret in the same namespace.")
    config_map_key_ref: EnvConfigMapKey | None = Field(None, description="Key of a ConfigMap in the same namespace.")
    field_ref: EnvField | None = Field(None, description="Field of the pod.")
    resource_field_ref: EnvResource | None = Field(None, description="Request or limit of the container.")


class EnvVar(ApiModel):
    """Environment variable, as in a Pod. Exactly one of `value` and `valueFrom` is set."""

    model_config = config_with_rules(
        Rule(
            rule="has(self.value) != has(self.valueFrom)",
            message="needs exactly one of value or valueFrom",
        )
    )
    name: VariableName = Field(description="Name of the variable.")
    value: VariableValue | None = Field(None, description="Value of the variable. Use valueFrom for secrets.")
    value_from: EnvVarSource | None = Field(None, description="Source of the value.")


class ResourceAmounts(ApiModel):
    """Amounts of CPU, memory and disk of a container."""

    cpu: Quantity | None = Field(None, description="CPU in cores, such as 4 or 500m.")
    memory: Quantity | None = Field(None, description="Memory, such as 256Mi.")
    ephemeral_storage: Quantity | None = Field(
        None, alias="ephemeral-storage", description="Space on the disk of the node, including logs."
    )


def _request_limit_rule(name: str, field: str) -> Rule:
    request, limit = f"self.requests.{field}", f"self.limits.{field}"
    return Rule(
        rule=f"!has(self.requests) || !has({request}) || !has(self.limits) || !has({limit}) ||"
        f" quantity(string({request})).compareTo(quantity(string({limit}))) <= 0",
        message=f"requests.{name} must be at most limits.{name}: lower the request, or raise the limit",
    )


class ContainerResources(ApiModel):
    """Requests and limits of a container, as in a Pod. Request cards in spec.accelerator."""

    model_config = config_with_rules(
        _request_limit_rule("cpu", "cpu"),
        _request_limit_rule("memory", "memory"),
        # CEL replaces a dash in a field name with `__dash__`.
        _request_limit_rule("ephemeral-storage", "ephemeral__dash__storage"),
    )
    requests: ResourceAmounts = Field(
        ResourceAmounts(), description="Amounts that are reserved on the node. When left out, the limit is reserved."
    )
    limits: ResourceAmounts = Field(
        ResourceAmounts(), description="Maximum amounts for the container. When an amount is left out: no maximum."
    )


class SideContainer(ApiModel):
    """Container next to the runtime, as in a Pod. The container has the security context of the runtime."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the container.",
        json_schema_extra=rules_keyword(
            Rule(rule="self != 'runtime'", message="must not be runtime, the name of the runtime container")
        ),
    )
    image: ImageReference = Field(
        description="Image of the container. The image must run as a user other than root, on a read-only root file"
        " system."
    )
    image_pull_policy: PullPolicy = Field(PullPolicy.IF_NOT_PRESENT, description="When the kubelet pulls the image.")
    command: Annotated[tuple[Argument, ...], Field(max_length=32)] = Field(
        (), description="Program and first arguments. When left out: the entry point of the image."
    )
    args: Annotated[tuple[Argument, ...], Field(max_length=32)] = Field(
        (), description="Arguments of the program. When left out: the arguments of the image."
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=32)] = Field(
        (),
        description="Environment variables of the container. Variables of the runtime are not set.",
        json_schema_extra=list_map_keywords("name"),
    )
    resources: ContainerResources = Field(ContainerResources(), description="Requests and limits of the container.")
    volume_mounts: VolumeMounts = Field(
        (),
        description="Mounts of volumes in spec.pod.volumes. The container can write only to these mounts.",
        json_schema_extra=list_map_keywords("mountPath"),
    )


SideContainers = Annotated[tuple[SideContainer, ...], Field(max_length=4)]
