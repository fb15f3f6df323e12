"""Who can resolve a problem: others within spec.rollout.obstacleDeadlineSeconds, or only a user.

GitOps tools fail a rollout when `Stalled` becomes True. Therefore `Stalled` stays False while the cluster may resolve
the problem (a node pool boots a node, a kubelet retries a pull) or someone else may act (a quota is raised, a Secret
arrives with the next sync). The deadline counts from the start of the problem, which is read from the cluster. A new
leader or another reason for the same problem does not restart the deadline (docs/how-to/troubleshoot.md, How long
others have).
"""

from collections.abc import Iterable
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import Condition
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.text_formats import parse_timestamp_text
from gaudi_runtime.contract.failures import PASSING_REASONS
from gaudi_runtime.errors import Problem

RESOLVED_BY_OTHERS = PASSING_REASONS | frozenset(
    {
        # The scheduler retries after every change of a node, volume or pod.
        "Unschedulable",
        "UpgradeBlocked",
        "VolumeNotBound",
        # The quota system that set the scheduling gate admits the pod when quota is available.
        "SchedulingGated",
        # The kubelet retries. The missing object may be created later, for example by the next sync of a GitOps tool.
        "PodNotPrepared",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        # A controller retries. Quota becomes available when other pods are removed. A rebooted node accepts pods when
        # its device plugin has started.
        "PodsRefused",
        "PodsFail",
        # The operator retries. The controller may be installed later, and the ConfigMap or class may be created by the
        # next sync.
        "LeaderWorkerSetMissing",
        "ClassMissing",
    }
)
"""The reasons of problems that others may resolve. All other reasons need a user at once.

After a failure in PASSING_REASONS, the kubelet restarts the container.
"""

QUEUED = frozenset({"SchedulingGated"})
"""Reasons of pods that wait for quota. This may take hours and never counts as stalled."""


def make_resolvable_problem(
    reason: str, message: str, since: datetime | None, lasting_message: str | None = None
) -> Problem:
    """Return a problem. If others may resolve the problem, it has the start time `since`."""
    return Problem(reason, message, lasting_message, since=since if reason in RESOLVED_BY_OTHERS else None)


def worst_unresolved_problem(problems: Iterable[Problem]) -> Problem | None:
    """Return the worst problem. Problems that need a user are worst, followed by the oldest problem."""
    return min(
        problems, key=lambda problem: problem.since.timestamp() if problem.since else float("-inf"), default=None
    )


def needs_user_resolution(problem: Problem, seconds: float, deadlines: Deadlines) -> bool:
    """Return True if only a user can resolve the problem, or if others have not resolved it within `seconds`."""
    if problem.reason in QUEUED:
        return False
    return problem.since is None or deadlines.has_passed(problem.since, seconds)


def spec_refused_since(reason: str, conditions: Iterable[Condition]) -> datetime | None:
    """Return the time since which the spec has been refused for `reason`, or None if it has another reason.

    The time is read from the written `conditions`.
    """
    by_type = {condition.type: condition for condition in conditions if condition.reason == reason}
    if "PlanAccepted" not in by_type:
        return None
    # If the previous refusal had another reason, the deadline for other components starts at the change of the reason.
    moments = (by_type[kind].last_transition_time for kind in ("PlanAccepted", "Reconciling") if kind in by_type)
    return max(filter(None, map(parse_timestamp_text, moments)), default=None)
