"""Who mends a problem: others may, for as long as spec.rollout.progressDeadlineSeconds, or a person must at once.

GitOps tools fail a rollout the moment `Stalled` is True. So it waits where the cluster is still at work (a node pool
boots a node, a kubelet pulls again) or somebody else may be (a quota is raised, a Secret comes with the next sync).
The clock is that of the problem itself, read from the cluster: a new leader, or another word for the same trouble,
does not begin it again (docs/reference/conditions.md, How long others have).
"""

from collections.abc import Iterable
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import Condition
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.notation import parse_timestamp
from gaudi_runtime.errors import Problem

MENDED_BY_OTHERS = frozenset(
    {
        # The scheduler tries again with every node, volume and pod that comes or goes.
        "Unschedulable",
        "UpgradeBlocked",
        "VolumeNotBound",
        # The quota system that holds the pod admits it as soon as there is quota.
        "SchedulingGated",
        # A kubelet tries again: what is missing may be on its way, as by the same sync of a GitOps tool.
        "PodNotPrepared",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        # A controller tries again: a quota has room once other pods are gone, and a node that has just booted takes
        # pods once its device plugin is up.
        "PodsRefused",
        "PodsFail",
        # Its process ends by itself, and its kubelet starts another.
        "EngineLost",
        # We look again: its controller may be installed beside us, the text may come with the next sync.
        "LeaderWorkerSetMissing",
        "ConfigMapKeyMissing",
        "ClassMissing",
    }
)
"""All other reasons need a person at once: waiting changes nothing."""

QUEUED = frozenset({"SchedulingGated"})
"""Waiting for quota is the normal case in a queue and may take hours: it is no standstill, however long it takes."""


def problem_since(reason: str, message: str, since: datetime | None, lasting: str | None = None) -> Problem:
    """A problem that began at a moment, which counts where others may mend it."""
    return Problem(reason, message, lasting, since=since if reason in MENDED_BY_OTHERS else None)


def worst(problems: Iterable[Problem]) -> Problem | None:
    """What needs a person at once before what others may mend, and of that what began first; else the first."""
    return min(problems, key=lambda each: each.since.timestamp() if each.since else float("-inf"), default=None)


def needs_a_person(problem: Problem, seconds: float, deadlines: Deadlines) -> bool:
    """Whether nobody else can mend it, or has done so for `seconds`."""
    if problem.reason in QUEUED:
        return False
    return problem.since is None or deadlines.reached(problem.since, seconds)


def refused_since(reason: str, conditions: Iterable[Condition]) -> datetime | None:
    """Since when the spec has been refused for `reason`, as the written `conditions` say; None where it was not."""
    known = {each.type: each for each in conditions if each.reason == reason}
    if "PlanAccepted" not in known:
        return None
    # Refused for another reason before: others have had time only since we wait for them.
    moments = (known[kind].last_transition_time for kind in ("PlanAccepted", "Reconciling") if kind in known)
    return max(filter(None, map(parse_timestamp, moments)), default=None)
