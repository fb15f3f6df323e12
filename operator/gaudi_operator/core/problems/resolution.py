"""Who can resolve a problem: others within spec.rollout.progressDeadlineSeconds, or a user at once.

GitOps tools fail a rollout when `Stalled` becomes True. It therefore stays False while the cluster still works (a node
pool boots a node, a kubelet retries a pull) or someone else may act (a quota is raised, a Secret arrives with the next
sync). The time counts from the start of the problem, which is read from the cluster. A new leader or another reason for
the same problem does not restart the count (docs/reference/conditions.md, How long others have).
"""

from collections.abc import Iterable
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import Condition
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.text_formats import parse_timestamp
from gaudi_runtime.errors import Problem

RESOLVED_BY_OTHERS = frozenset(
    {
        # The scheduler retries after every change of nodes, volumes and pods.
        "Unschedulable",
        "UpgradeBlocked",
        "VolumeNotBound",
        # The quota system that holds the pod admits it when quota is available.
        "SchedulingGated",
        # A kubelet retries. The missing object may arrive, for example with the next sync of a GitOps tool.
        "PodNotPrepared",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        # A controller retries. A quota has room after other pods are gone, and a booted node accepts pods after its
        # device plugin started.
        "PodsRefused",
        "PodsFail",
        # The runtime process ends, and the kubelet restarts its container.
        "EngineLost",
        # The operator retries: a controller may be installed concurrently, and a text may arrive with the next sync.
        "LeaderWorkerSetMissing",
        "ConfigMapKeyMissing",
        "ClassMissing",
    }
)
"""The reasons of problems that others may resolve. All other reasons need a user at once."""

QUEUED = frozenset({"SchedulingGated"})
"""Reasons of pods that wait for quota. This may take hours and never counts as stalled."""


def problem_since(reason: str, message: str, since: datetime | None, lasting: str | None = None) -> Problem:
    """Return a problem with its start time, which is used only if others may resolve it."""
    return Problem(reason, message, lasting, since=since if reason in RESOLVED_BY_OTHERS else None)


def worst_problem(problems: Iterable[Problem]) -> Problem | None:
    """Return the worst problem. Problems that need a user come first, then problems that began earlier."""
    return min(problems, key=lambda each: each.since.timestamp() if each.since else float("-inf"), default=None)


def needs_user_action(problem: Problem, seconds: float, deadlines: Deadlines) -> bool:
    """Return True if only a user can resolve the problem, or others have not resolved it for `seconds`."""
    if problem.reason in QUEUED:
        return False
    return problem.since is None or deadlines.reached(problem.since, seconds)


def spec_refused_since(reason: str, conditions: Iterable[Condition]) -> datetime | None:
    """Return since when others could have resolved a refusal of the spec for `reason`, or None.

    The written `conditions` record the time.
    """
    known = {each.type: each for each in conditions if each.reason == reason}
    if "PlanAccepted" not in known:
        return None
    # If the spec was refused for another reason before, others have had time only since this reason began.
    moments = (known[kind].last_transition_time for kind in ("PlanAccepted", "Reconciling") if kind in known)
    return max(filter(None, map(parse_timestamp, moments)), default=None)
