"""spec.rollout: how a new revision replaces the old one."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, Seconds
from gaudi_operator.api.schema_keywords import Rule, meant_when_left_out, validated_by
from gaudi_operator.api.spelling import is_one_of

MAX_REPLICAS = 1000
IntOrPercent = (
    Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
    | Annotated[str, StringConstraints(min_length=2, max_length=4, pattern=r"^(100|[1-9]?[0-9])%$")]
)
RevisionName = Annotated[str, StringConstraints(min_length=10, max_length=10, pattern=r"^[0-9a-f]{10}$")]
# Compare as strings, because the value is an int or a string, and CEL cannot compare an int with a string.
_ZERO = "['0', '0%']"
_NONE_MISSING = f"has(self.maxUnavailable) && string(self.maxUnavailable) in {_ZERO}"


class WhenNoRoom(StrEnum):
    """The reaction of a rollout if no node or quota has room for a new pod in addition to the old ones."""

    REPLACE_IN_PLACE = "ReplaceInPlace"
    WAIT = "Wait"


class OnFailure(StrEnum):
    """The reaction to a failed revision."""

    ROLLBACK = "Rollback"
    PAUSE = "Pause"


class Canary(ApiModel):
    """Criteria for the first pod of a revision. The operator observes this pod before it creates more pods."""

    observe_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None,
        description="How long the first pod must serve before the rollout continues, in seconds. When left out: 600 for"
        " a revision whose plan was learned from traffic, 0 for every other revision.",
    )
    max_recompiles: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10,
        description="Maximum number of compiles that requests of a pod wait for until the rollout is complete. More"
        " fail the revision. Only counted if the canary is observed. Default: 10.",
        json_schema_extra=meant_when_left_out,
    )
    max_error_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        5,
        description="Maximum share of failed answers of a pod until the rollout is complete, in percent: status 500 or"
        " above, or a stream that breaks off. More, and at least five, fail the revision. Only counted if"
        " the canary is observed. Default: 5.",
        json_schema_extra=meant_when_left_out,
    )
    max_padding_percent: Annotated[int, Field(ge=0, le=1000)] = Field(
        15,
        description="How much more a pod may compute than was forecast for the plan that its revision learned from"
        " traffic (strategy Optimal), in percent. More fails the revision. Only counted if the canary is"
        " observed and the stable revision has another plan, after 200 prompt batches of the pod. Default:"
        " 15.",
        json_schema_extra=meant_when_left_out,
    )


class Rollout(ApiModel):
    """How a new revision replaces the old one. Old pods are deleted only as new pods become ready."""

    model_config = validated_by(
        Rule(
            rule=f"!({_NONE_MISSING} && string(self.maxSurge) in {_ZERO})",
            message="spec.rollout.maxSurge and maxUnavailable cannot both be 0, because no pod could be replaced: raise"
            " one of them",
        ),
        Rule(
            rule=f"!({_NONE_MISSING} && {is_one_of('whenNoRoom', WhenNoRoom.REPLACE_IN_PLACE)})",
            message="spec.rollout.maxUnavailable cannot be 0 if whenNoRoom is ReplaceInPlace, because a replica is"
            " missing while pods are replaced in place: remove one of the two",
        ),
    )
    max_surge: IntOrPercent = Field(
        1,
        description="Maximum number or percentage of pods above replicas during a rollout. A percentage is rounded up."
        " With 0, a rollout replaces pods in place: an old pod is deleted before its successor starts.",
    )
    max_unavailable: IntOrPercent | None = Field(
        None,
        description="Maximum number or percentage of replicas that may be unavailable during a rollout. A percentage is"
        " rounded down. When left out, it is 0 while there is room for new pods and 1 while pods are"
        " replaced in place; if it is 0, pods are never replaced in place, and the rollout waits for room.",
    )
    when_no_room: WhenNoRoom | None = Field(
        None,
        description="What happens if a new pod finds no card, node or quota in addition to the old pods for"
        " surgeTimeoutSeconds. ReplaceInPlace replaces pods in place from then on: one at a time, or"
        " maxUnavailable if that is more. Wait keeps the old pods until there is room. When left out:"
        " ReplaceInPlace if maxUnavailable is at least 1, or is left out and there are two or more"
        " replicas; otherwise Wait.",
    )
    surge_timeout_seconds: Seconds = Field(
        300,
        description="How long a new pod waits for room before whenNoRoom applies, in seconds. A node pool adds a node"
        " in two to five minutes; use 30 if no node is ever added.",
    )
    progress_deadline_seconds: Seconds = Field(
        600,
        description="How long an obstacle to the start of pods may last before the condition Stalled becomes True, in"
        " seconds: a missing node, a pull that is retried, or a quota. Obstacles that do not disappear by"
        " themselves are Stalled at once.",
    )
    paused: bool = Field(False, description="Whether the rollout is paused. Pods that serve are not changed.")
    revision: RevisionName | None = Field(
        None,
        description="Name of a kept revision that pods run instead of the spec (status.revisions lists them). Pods run"
        " the spec when left out.",
    )
    canary: Canary = Field(
        Canary(), description="Criteria for the first pod of a revision.", json_schema_extra=meant_when_left_out
    )
    on_failure: OnFailure = Field(
        OnFailure.ROLLBACK,
        description="What happens after a revision has failed: Rollback runs the last good revision again, Pause keeps"
        " the failed pods for inspection. Default: Rollback.",
        json_schema_extra=meant_when_left_out,
    )
    revision_history_limit: Annotated[int, Field(ge=1, le=50)] = Field(
        5, description="Number of old revisions that are kept."
    )
