"""spec.rollout: how replicas are replaced."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, Rule, Seconds, meant_when_left_out, validated_by

MAX_REPLICAS = 1000
IntOrPercent = (
    Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
    | Annotated[str, StringConstraints(min_length=2, max_length=4, pattern=r"^(100|[1-9]?[0-9])%$")]
)
RevisionName = Annotated[str, StringConstraints(min_length=10, max_length=10, pattern=r"^[0-9a-f]{10}$")]
# As text: CEL sees an int or a string, and knows no comparison of both.
_ZERO = "['0', '0%']"


class WhenNoRoom(StrEnum):
    """The reaction of a rollout if no node or quota has room for a new pod in addition to the old ones."""

    REPLACE_IN_PLACE = "ReplaceInPlace"
    WAIT = "Wait"


class OnFailure(StrEnum):
    """What a failed revision leads to."""

    ROLLBACK = "Rollback"
    PAUSE = "Pause"


class Canary(ApiModel):
    """The first pod of a revision is watched before the next one starts."""

    observe_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None,
        description="How long the gate of the first pod must stay open under traffic, in seconds. When left out: 600"
        " for a revision that brings a plan learned from traffic, 0 for any other.",
    )
    max_recompiles: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10,
        description="Most compiles on the request path of a pod until its revision is rolled out; more fail the"
        " revision. Only counted for a revision whose canary is observed. 10 when left out.",
        json_schema_extra=meant_when_left_out,
    )
    max_error_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        5,
        description="Most answers of a pod that fail (status 500 or above, or a stream that breaks off), in percent,"
        " until its revision is rolled out; more, and at least five, fail the revision. Only counted for a revision"
        " whose canary is observed. 5 when left out.",
        json_schema_extra=meant_when_left_out,
    )
    max_padding_percent: Annotated[int, Field(ge=0, le=1000)] = Field(
        15,
        description="How much more a pod may compute than was forecast for the plan that its revision learned from"
        " traffic (strategy Optimal), in percent; more fails the revision. Only counted if the canary is observed"
        " and the stable revision has another plan, once the pod has run 200 prompt batches. 15 when left out.",
        json_schema_extra=meant_when_left_out,
    )


class Rollout(ApiModel):
    """How a new revision replaces the old one; old pods go only as new ones pass the gate."""

    model_config = validated_by(
        Rule(
            rule=f"!(string(self.maxSurge) in {_ZERO} && string(self.maxUnavailable) in {_ZERO})",
            message="spec.rollout.maxSurge and maxUnavailable cannot both be 0: no pod could ever be replaced",
        ),
    )
    max_surge: IntOrPercent = Field(
        1,
        description="Most pods above replicas during a rollout; percent is rounded up. 0 replaces pods in place from"
        " the start: an old pod ends before its successor starts.",
    )
    max_unavailable: IntOrPercent = Field(
        0,
        description="Most replicas that may be missing during a rollout; percent is rounded down. A rollout in place"
        " takes at least one.",
    )
    when_no_room: WhenNoRoom | None = Field(
        None,
        description="What happens if a new pod finds no card, node or quota in addition to the old pods for"
        " surgeTimeoutSeconds. ReplaceInPlace replaces pods in place from then on: one at a time, or maxUnavailable if"
        " that is more. Wait keeps the old pods until there is room. When left out: ReplaceInPlace with two or more"
        " replicas. With one replica Wait, because replacing it stops traffic for the whole warm-up, unless"
        " maxUnavailable permits that.",
    )
    surge_timeout_seconds: Seconds = Field(
        300,
        description="How long a new pod waits for room before whenNoRoom applies. A node pool boots a node in two to"
        " five minutes; use 30 if no node is ever added.",
    )
    progress_deadline_seconds: Seconds = Field(
        600,
        description="How long an obstacle to the start of pods may go away by itself, such as a missing node, a"
        " pull that is tried again or a quota; from then on the condition Stalled is True, as in a"
        " Deployment. What waiting does not resolve is Stalled at once.",
    )
    paused: bool = Field(False, description="Stops the rollout where it is; nothing already serving is touched.")
    revision: RevisionName | None = Field(
        None,
        description="Name of a kept revision that pods run in place of the spec's own (status.revisions lists"
        " them); the spec's own when left out.",
    )
    canary: Canary = Field(
        Canary(), description="How the first pod of a revision is watched.", json_schema_extra=meant_when_left_out
    )
    on_failure: OnFailure = Field(
        OnFailure.ROLLBACK,
        description="What a failed revision leads to: Rollback lets the last good one run again, Pause leaves its pods"
        " for a look. Rollback when left out.",
        json_schema_extra=meant_when_left_out,
    )
    revision_history_limit: Annotated[int, Field(ge=1, le=50)] = Field(5, description="Old revisions that are kept.")
