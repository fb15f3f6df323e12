"""spec.engine.env, and the containers of spec.pod beside the runtime, written as in a Pod.

What they may do is the operator's to say (core/rendering/container.py), so that none weakens its pod.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from gaudi_operator.api.base import (
    DNS_LABEL,
    ApiModel,
    ConfigMapKey,
    ImageReference,
    Quantity,
    Rule,
    SecretKey,
    list_map,
    rules,
    validated_by,
)
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.pods.volumes import LABEL_OR_ANNOTATION, VolumeMounts

VariableName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, StringConstraints(max_length=1024)]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class EnvSecretKey(SecretKey):
    """A key of a Secret in the same namespace, which only the kubelet reads."""

    optional: bool | None = Field(None, description="Whether the container starts without it; false when left out.")


class EnvConfigMapKey(ConfigMapKey):
    """A key of a ConfigMap in the same namespace, which only the kubelet reads."""

    optional: bool | None = Field(None, description="Whether the container starts without it; false when left out.")


class EnvField(ApiModel):
    """A field of the pod itself."""

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
        description="metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'],"
        " metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP, status.podIP or"
        " status.podIPs."
    )


class ResourceName(StrEnum):
    """What a container asks for, or is limited to."""

    CPU_LIMIT = "limits.cpu"
    MEMORY_LIMIT = "limits.memory"
    EPHEMERAL_STORAGE_LIMIT = "limits.ephemeral-storage"
    CPU_REQUEST = "requests.cpu"
    MEMORY_REQUEST = "requests.memory"
    EPHEMERAL_STORAGE_REQUEST = "requests.ephemeral-storage"


class EnvResource(ApiModel):
    """A resource of the container itself."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    resource: ResourceName = Field(description="The resource: CPU in whole cores, all else in bytes.")


class EnvVarSource(ApiModel):
    """Where the value of a variable comes from."""

    model_config = validated_by(
        Rule(
            rule="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef),"
            " has(self.resourceFieldRef)].filter(x, x).size() == 1",
            message="must name exactly one of secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef",
        )
    )
    secret_key_ref: EnvSecretKey | None = Field(None, description="Key of a Secret in the same namespace.")
    config_map_key_ref: EnvConfigMapKey | None = Field(None, description="Key of a ConfigMap in the same namespace.")
    field_ref: EnvField | None = Field(None, description="A field of the pod.")
    resource_field_ref: EnvResource | None = Field(None, description="A resource of the container.")


class EnvVar(ApiModel):
    """An environment variable, written as in a Pod."""

    model_config = validated_by(
        Rule(
            rule="has(self.value) != has(self.valueFrom)",
            message="needs exactly one of value or valueFrom",
        )
    )
    name: VariableName = Field(description="Name of the variable.")
    value: VariableValue | None = Field(None, description="Plain value; never put a secret here.")
    value_from: EnvVarSource | None = Field(None, description="Where the value comes from.")


class Amounts(ApiModel):
    """CPU, memory and space on the node's disk."""

    cpu: Quantity | None = Field(None, description="CPU, for example 500m.")
    memory: Quantity | None = Field(None, description="Memory, for example 256Mi.")
    ephemeral_storage: Quantity | None = Field(
        None, alias="ephemeral-storage", description="Space on the node's disk, logs included."
    )


def _request_within_limit(name: str, field: str) -> Rule:
    requests, limits = f"self.requests.{field}", f"self.limits.{field}"
    return Rule(
        rule=f"!has(self.requests) || !has({requests}) || !has(self.limits) || !has({limits}) ||"
        f" quantity(string({requests})).compareTo(quantity(string({limits}))) <= 0",
        message=f"requests.{name} must be at most limits.{name}: lower the request, or raise the limit",
    )


class ContainerResources(ApiModel):
    """Resources of a container, written as in a Pod; cards are requested by spec.accelerator alone."""

    model_config = validated_by(
        _request_within_limit("cpu", "cpu"),
        _request_within_limit("memory", "memory"),
        # CEL's name of a field with a dash.
        _request_within_limit("ephemeral-storage", "ephemeral__dash__storage"),
    )
    requests: Amounts = Field(
        Amounts(), description="Amounts that the node must have free; those of limits when left out."
    )
    limits: Amounts = Field(Amounts(), description="Amounts that the container may use; no limit when left out.")


class SideContainer(ApiModel):
    """A container beside the runtime: its rights are those of the runtime, and it gets no secret of the operator."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the container.",
        json_schema_extra=rules(
            Rule(rule="self != 'runtime'", message="must not be runtime, the name of the operator's own container")
        ),
    )
    image: ImageReference = Field(description="Image; it must run as a user that is not root, on a read-only root.")
    image_pull_policy: PullPolicy = Field(PullPolicy.IF_NOT_PRESENT, description="When the image is pulled.")
    command: Annotated[tuple[Argument, ...], Field(max_length=32)] = Field(
        (), description="Program and first arguments; those of the image when left out."
    )
    args: Annotated[tuple[Argument, ...], Field(max_length=32)] = Field((), description="Arguments.")
    env: Annotated[tuple[EnvVar, ...], Field(max_length=32)] = Field(
        (), description="Environment; nothing of the runtime's.", json_schema_extra=list_map("name")
    )
    resources: ContainerResources = Field(ContainerResources(), description="CPU, memory and space on disk.")
    volume_mounts: VolumeMounts = Field(
        (),
        description="Where it sees volumes of spec.pod.volumes; none is writable without one.",
        json_schema_extra=list_map("mountPath"),
    )


SideContainers = Annotated[tuple[SideContainer, ...], Field(max_length=4)]
