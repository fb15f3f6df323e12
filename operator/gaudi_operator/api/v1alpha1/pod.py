"""spec.pod: what may be said about the pods."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import (
    VALID_KEYS,
    Annotations,
    ApiModel,
    KeyText,
    Labels,
    LabelValue,
    ObjectName,
    Quantity,
    Rule,
    list_map,
    rules,
    validated_by,
)


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """Effect of a taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """A taint that the pods tolerate, written as in a Pod."""

    model_config = validated_by(
        Rule(
            rule="self.operator != 'Exists' || !has(self.value)",
            message="spec.pod.tolerations: value must be left out when operator is Exists",
        ),
        Rule(
            rule="self.operator != 'Equal' || has(self.key)",
            message="spec.pod.tolerations: key is needed when operator is Equal",
        ),
        Rule(
            rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="spec.pod.tolerations: tolerationSeconds is only for effect NoExecute",
        ),
    )

    key: KeyText | None = Field(None, description="Key of the taint; all taints when left out with Exists.")
    operator: TolerationOperator = Field(TolerationOperator.EQUAL, description="Exists or Equal.")
    value: LabelValue | None = Field(None, description="Value of the taint.")
    effect: TaintEffect | None = Field(None, description="Effect of the taint; all effects when left out.")
    toleration_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = Field(
        None, description="How long a NoExecute taint is tolerated, in seconds."
    )


class Resources(ApiModel):
    """CPU and memory of the runtime container; cards stand in spec.accelerator."""

    cpu: Quantity | None = Field(None, description="CPU request, for example 4 or 500m.")
    memory: Quantity | None = Field(None, description="Memory request and limit, for example 64Gi.")
    shared_memory: Quantity | None = Field(
        None,
        description="Most that may be written to /dev/shm, which counts as memory of the container; 1Gi, and 512Mi for"
        " every rank of several, when left out.",
    )


class SecretName(ApiModel):
    """A Secret in the same namespace, by name."""

    name: ObjectName = Field(description="Name of the Secret.")


class Pod(ApiModel):
    """What may be said about the pods: an allowlist, so that nothing here weakens their security."""

    labels: Labels = Field(
        {},
        description="Further labels of the pods.",
        json_schema_extra=rules(
            VALID_KEYS,
            Rule(
                rule="!self.exists(key, key.startsWith('inference.gaudi.dev/'))",
                message="must not use keys that start with inference.gaudi.dev/: they are the operator's",
            ),
        ),
    )
    annotations: Annotations = Field({}, description="Further annotations of the pods.")
    node_selector: Labels = Field({}, description="Labels that a node must have.")
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        (), description="Taints that the pods tolerate."
    )
    priority_class_name: ObjectName | None = Field(None, description="Priority class of the pods.")
    scheduler_name: ObjectName | None = Field(None, description="Scheduler of the pods.")
    runtime_class_name: ObjectName | None = Field(None, description="Runtime class of the pods.")
    service_account_name: ObjectName | None = Field(
        None,
        description="Service account of the pods; one is made when left out. Its token is never mounted.",
    )
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=8)] = Field(
        (), description="Secrets for pulling images.", json_schema_extra=list_map("name")
    )
    resources: Resources = Field(Resources(), description="CPU and memory of the runtime container.")
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] = Field(
        65532, description="User and group id of the pods; never root."
    )
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        30, description="How long running requests may take to finish when a pod is stopped, in seconds."
    )
