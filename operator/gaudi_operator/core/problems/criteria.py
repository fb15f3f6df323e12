"""The criteria for problems of one revision's pods, in addition to what the pods report."""

from collections.abc import Mapping
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.scaling import Canary
from gaudi_operator.api.v1alpha1.status import LastTermination
from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Manifest


@dataclass(frozen=True)
class Room:
    """The criterion whether new pods have room: the cards that they can expect.

    While more are `to_come`, a pod without a node is no problem. `unblock` is the advice on how an upgrade can start
    without spare cards, or None if no upgrade waits for cards. `in_place_after` is the number of seconds after which
    the operator replaces pods in place if a new pod still has no room, or None if it waits.
    """

    to_come: bool
    unblock: str | None = None
    in_place_after: int | None = None


@dataclass(frozen=True)
class Criteria:
    """The criteria that decide whether pods of one revision have a problem.

    `resource` is the name of the GaudiInference. `template` is the pod template of the revision, or empty if it is
    unknown. `bound_claims` are the PersistentVolumeClaims that are known to be bound. `terminations` is keyed by pod
    name. `stall_seconds` is the time without progress after which the runtime itself restarts. `observed` is True if
    the limits of `canary` apply to the revision. `learned_plan` is True if the revision replaces the stable revision's
    plan with a plan learned from traffic.
    """

    resource: str
    template: Manifest
    bound_claims: frozenset[str]
    readiness: Readiness
    canary: Canary
    deadlines: Deadlines
    terminations: Mapping[str, LastTermination]
    stall_seconds: int
    observed: bool
    learned_plan: bool
    room: Room
