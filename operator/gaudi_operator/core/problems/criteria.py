"""The criteria for problems of one revision's pods. They come from other sources than the pods."""

from collections.abc import Mapping
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.rollout import Canary
from gaudi_operator.api.v1alpha1.status import LastTermination
from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Manifest


@dataclass(frozen=True)
class RoomCriterion:
    """The expected room for new pods, as a criterion for problems.

    While `to_come` is True, more room is expected and a pod without a node is no problem. `remedy` is the advice on
    how an upgrade can start without spare cards, or None if no upgrade waits for cards. `in_place_after` is the number
    of seconds after which the operator replaces pods in place if a new pod still has no room, or None if the operator
    keeps waiting.
    """

    to_come: bool
    remedy: str | None = None
    in_place_after: int | None = None


@dataclass(frozen=True)
class ProblemCriteria:
    """The criteria that decide whether pods of one revision have a problem.

    `resource` is the name of the GaudiInference. `template` is the pod template of the revision, or empty if it is
    unknown. `bound_claims` are the PersistentVolumeClaims that are known to be bound. `terminations` is keyed by pod
    name. `stall_seconds` is the time without progress after which the runtime restarts itself. `is_observed` is True if
    the limits of `canary` apply to the revision. `has_learned_plan` is True if the revision has a plan learned from
    traffic that replaces the plan of the stable revision.
    """

    resource: str
    template: Manifest
    bound_claims: frozenset[str]
    readiness: Readiness
    canary: Canary
    deadlines: Deadlines
    terminations: Mapping[str, LastTermination]
    stall_seconds: int
    is_observed: bool
    has_learned_plan: bool
    room: RoomCriterion
