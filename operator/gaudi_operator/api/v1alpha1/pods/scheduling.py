"""spec.pod: where pods may run, written as in a Pod: tolerations, and how pods are spread."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, KeyText, LabelValue
from gaudi_operator.api.schema_keywords import (
    SchemaRule,
    block_schema_config,
    list_map_keywords,
    schema_config_with_rules,
)


class TolerationOperator(StrEnum):
    """Comparison operator of a toleration."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """Effect of a taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """Toleration of a taint, as in a Pod."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="self.operator != 'Exists' || !has(self.value)",
            message="value must be left out when operator is Exists",
        ),
        SchemaRule(
            rule="self.operator != 'Equal' || has(self.key)",
            message="key is needed when operator is Equal",
        ),
        SchemaRule(
            rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds is only for effect NoExecute",
        ),
    )

    key: KeyText | None = Field(None, description="Key of the taint. When left out with operator Exists: all taints.")
    operator: TolerationOperator = Field(
        TolerationOperator.EQUAL, description="Comparison: Equal compares value, Exists accepts any value."
    )
    value: LabelValue | None = Field(None, description="Value of the taint, for operator Equal.")
    effect: TaintEffect | None = Field(
        None, description="Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. When left out: all effects."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = Field(
        None,
        description="Time in seconds that a taint with effect NoExecute is tolerated. When left out: no limit.",
    )


class TopologySpreadConstraint(ApiModel):
    """Rule for spreading pods over topology domains, as in a Pod."""

    model_config = block_schema_config()
    topology_key: KeyText = Field(
        description="Node label that defines topology domains, such as topology.kubernetes.io/zone. Nodes with the"
        " same value are one domain."
    )
    when_unsatisfiable: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="Reaction to a pod that cannot be spread: DoNotSchedule leaves the pod pending, ScheduleAnyway"
        " selects the best domain."
    )


TopologySpreadConstraints = Annotated[
    tuple[TopologySpreadConstraint, ...],
    Field(max_length=8, json_schema_extra=list_map_keywords("topologyKey", "whenUnsatisfiable")),
]
