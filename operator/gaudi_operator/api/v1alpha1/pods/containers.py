"""spec.engine.env, and the init containers and sidecars of spec.pod, as in a Pod.

The operator sets their security context (core/rendering/container.py), so that no container weakens its pod.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import DNS_LABEL, ApiModel, Quantity
from gaudi_operator.api.schema_keywords import (
    Block,
    SchemaRule,
    block_schema_config,
    list_map_keywords,
    rules_keyword,
    schema_config_with_rules,
)
from gaudi_operator.api.v1alpha1.pods.volumes import VolumeMounts

VariableName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, StringConstraints(max_length=1024)]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class EnvVar(ApiModel):
    """Environment variable, as in a Pod. Exactly one of `value` and `valueFrom` is set."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="has(self.value) != has(self.valueFrom)",
            message="needs exactly one of value or valueFrom",
        )
    )
    name: VariableName = Field(description="Name of the variable.")
    value: VariableValue | None = Field(None, description="Value of the variable. Use valueFrom for secrets.")
    value_from: Block | None = Field(None, description="Source of the value, as in a Pod.")


class ResourceAmounts(ApiModel):
    """Amounts of CPU, memory and disk of a container."""

    cpu: Quantity | None = Field(None, description="CPU in cores, such as 4 or 500m.")
    memory: Quantity | None = Field(None, description="Memory, such as 256Mi.")
    ephemeral_storage: Quantity | None = Field(
        None, alias="ephemeral-storage", description="Space on the disk of the node, including logs."
    )


def _request_limit_rule(name: str, field: str) -> SchemaRule:
    request, limit = f"self.requests.{field}", f"self.limits.{field}"
    return SchemaRule(
        rule=f"!has(self.requests) || !has({request}) || !has(self.limits) || !has({limit}) ||"
        f" quantity(string({request})).compareTo(quantity(string({limit}))) <= 0",
        message=f"requests.{name} must be at most limits.{name}: lower the request, or raise the limit",
    )


class ContainerResources(ApiModel):
    """Requests and limits of a container, as in a Pod. Request cards in spec.accelerator."""

    model_config = schema_config_with_rules(
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

    model_config = block_schema_config()
    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of the container.",
        json_schema_extra=rules_keyword(
            SchemaRule(rule="self != 'runtime'", message="must not be runtime, the name of the runtime container")
        ),
    )
    volume_mounts: VolumeMounts = Field(
        (),
        description="Mounts of volumes in spec.pod.volumes. The container can write only to these mounts.",
        json_schema_extra=list_map_keywords("mountPath"),
    )


SideContainers = Annotated[tuple[SideContainer, ...], Field(max_length=4)]
