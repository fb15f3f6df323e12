"""spec.rollout: how a new revision replaces the old one."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, Seconds
from gaudi_operator.api.schema_keywords import SchemaRule, replace_default_keyword, schema_config_with_rules

MAX_REPLICAS = 1000
IntOrPercent = (
    Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
    | Annotated[str, StringConstraints(min_length=2, max_length=4, pattern=r"^(100|[1-9]?[0-9])%$")]
)
# Compare as strings, because the value is an int or a string, and CEL cannot compare an int with a string.
_ZERO = "['0', '0%']"


class RolloutType(StrEnum):
    """How a rollout replaces pods: next to the old pods, in place of the old pods, or in place if there is no room."""

    SURGE = "Surge"
    SURGE_THEN_IN_PLACE = "SurgeThenInPlace"
    IN_PLACE = "InPlace"


class OnFailure(StrEnum):
    """The reaction to a failed revision."""

    ROLLBACK = "Rollback"
    PAUSE = "Pause"


class Canary(ApiModel):
    """Criteria for the first pod of a revision. The operator observes this pod before creating more pods."""

    observe_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None,
        description="Time in seconds that the first pod must serve before the rollout continues. When left out: 600"
        " if the plan of the revision was learned from traffic, otherwise 0.",
    )
    max_recompiles: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10,
        description="Maximum number of compiles that requests of one pod wait for before the rollout is complete. A"
        " higher number fails the revision. Compiles count only if the canary is observed. Default: 10.",
        json_schema_extra=replace_default_keyword,
    )
    max_error_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        5,
        description="Maximum share of failed answers of one pod before the rollout is complete, in percent. Failed"
        " answers have status 500 or above, or a stream that breaks off. A higher share fails the revision if at"
        " least five answers failed. Answers count only if the canary is observed. Default: 5.",
        json_schema_extra=replace_default_keyword,
    )
    max_padding_percent: Annotated[int, Field(ge=0, le=1000)] = Field(
        15,
        description="Maximum excess of the computation of a pod over the forecast of the plan, in percent. Only for a"
        " plan that was learned from traffic (strategy Optimal). A higher excess fails the revision. Checked after"
        " 200 prompt batches of the pod, if the canary is observed and the stable revision has another plan. Default:"
        " 15.",
        json_schema_extra=replace_default_keyword,
    )


class Rollout(ApiModel):
    """How a new revision replaces the old revision. Old pods are deleted only as new pods become ready."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule=f"!(string(self.maxSurge) in {_ZERO})",
            message="spec.rollout.maxSurge must be above 0: to replace pods in place, set type to InPlace",
        ),
        SchemaRule(
            rule=f"self.type != 'InPlace' || !has(self.maxUnavailable) || !(string(self.maxUnavailable) in {_ZERO})",
            message="spec.rollout.maxUnavailable cannot be 0 with type InPlace, because a replica is missing while pods"
            " are replaced in place: remove it, or set another type",
        ),
    )
    type: RolloutType = Field(
        RolloutType.SURGE_THEN_IN_PLACE,
        description="Surge starts new pods next to the old pods, and waits until there is room. SurgeThenInPlace"
        " starts new pods in the same way. If a new pod finds no card, node or quota within surgeTimeoutSeconds, pods"
        " are replaced in place, unless maxUnavailable permits no missing replica. InPlace deletes an old pod before"
        " a new pod starts.",
    )
    max_surge: IntOrPercent = Field(
        1,
        description="Maximum number or percentage of pods in addition to replicas during a rollout, at least 1. A"
        " percentage is rounded up. Not used with type InPlace.",
    )
    max_unavailable: IntOrPercent | None = Field(
        None,
        description="Maximum number or percentage of replicas that may be unavailable during a rollout. A percentage"
        " is rounded down. When left out: 0 while there is room for new pods, and 1 while pods are replaced in place."
        " SurgeThenInPlace replaces a single replica in place only if this field is set to 1 or more.",
    )
    surge_timeout_seconds: Seconds = Field(
        300,
        description="Time in seconds that a new pod waits for room before SurgeThenInPlace replaces pods in place. A"
        " node pool adds a node in two to five minutes. Use 30 if the cluster never adds nodes.",
    )
    obstacle_deadline_seconds: Seconds = Field(
        600,
        description="Time in seconds after which an obstacle to the start of pods sets the condition Stalled to True."
        " Examples are a missing node, an image pull that is retried, and a quota. Obstacles that cannot disappear by"
        " themselves set the condition immediately.",
    )
    paused: bool = Field(False, description="Whether the rollout is paused. Ready pods keep serving.")
    canary: Canary = Field(
        Canary(), description="Criteria for the first pod of a revision.", json_schema_extra=replace_default_keyword
    )
    on_failure: OnFailure = Field(
        OnFailure.ROLLBACK,
        description="Reaction to a failed revision: Rollback returns to the last good revision, Pause keeps the"
        " failed pods for inspection. Default: Rollback.",
        json_schema_extra=replace_default_keyword,
    )
    revision_history_limit: Annotated[int, Field(ge=1, le=50)] = Field(
        5, description="Number of old revisions that are stored."
    )
