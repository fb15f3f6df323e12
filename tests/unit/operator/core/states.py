"""Rollout states for tests of problems, conditions and status."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, Revisions
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.pod_problems import pod_problem, worst_pod_problem
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.rollout_step import RolloutStep, RolloutStepLimits, RolloutStepProgress
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_operator.core.status.warmup_figures import warmup_plan_state
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import DEFAULTS, NOW, inference, resource

DONE = RolloutStep(RolloutStepProgress.DONE)
WAITING = RolloutStep(RolloutStepProgress.WAITING)
IMPOSSIBLE = inference(bucketing={"strategy": "File", "file": "(1, 1, 8)"})
"""No line needs a prompt bucket."""
PAUSED = RolloutStep(RolloutStepProgress.PAUSED)


def serving(
    name: str = "a", revision: str = "new", gate: str = "WarmedUp", said: WarmupReport | None = None
) -> PodView:
    """Return a pod that is ready."""
    conditions = (gate_condition(True, reason=gate), condition("Ready", True))
    return view(pod(name, revision=revision, conditions=conditions), said)


def warming(name: str = "b", revision: str = "new") -> PodView:
    """Return a pod without a report."""
    return view(pod(name, revision=revision))


def unschedulable(seconds: int, said: str = "0/1 nodes are available") -> PodView:
    """Return a pod that has been unschedulable for `seconds`. `said` is the message of the scheduler."""
    since = stamp(NOW - timedelta(seconds=seconds))
    scheduled = condition("PodScheduled", False, "Unschedulable", said, since)
    return view(pod(container=None, phase="Pending", conditions=(scheduled,)))


def closed(name: str = "c") -> PodView:
    """Return a pod that was ready and whose gate is closed."""
    return view(pod(name, revision="new", conditions=(gate_condition(False), condition("Ready", False))))


def state_of(
    pods: Iterable[PodView] = (),
    step: RolloutStep | None = WAITING,
    desired: int = 2,
    unavailable: int = 0,
    current: str | None = "new",
    now: datetime = NOW,
    **fields: Any,
) -> State:
    """Return the state of a reconcile. The state has no problems, unless `fields` add some."""
    subject = fields.get("inference") or inference()
    kept = {each.name: each for each in fields.get("stored", ())}
    revision = kept.get(current, Revision(current, 1, {}, {}, "")) if current else None
    given: dict[str, Any] = {
        "inference": subject,
        "previous_status": GaudiInferenceStatus(),
        "observed": Observed(resource(), now=now),
        "defaults": DEFAULTS,
        "deadlines": Deadlines(now),
        "pods": tuple(pods),
        "stored": (),
        "terminations": {},
        "failures": {},
        "forbidden": {},
        "rollout": RolloutState(RolloutStepLimits(desired, 1, unavailable), None, revision, step),
        **fields,
    }
    state = State(**given)
    return replace(state, plan=warmup_plan_state(state))


def having_served(served: int, pods: Iterable[PodView], desired: int = 2, **fields: Any) -> State:
    """Return the state of a fully rolled out revision that once had `served` replicas ready at the same time."""
    before = GaudiInferenceStatus(expected_ready_replicas=served, revision=Revisions(current="new", stable="new"))
    return state_of(pods, desired=desired, previous_status=before, **fields)


def problem_of(pod: PodView, state: State, room: RoomCriterion) -> Problem | None:
    """Return the problem of `pod` by the criteria of the pod's revision."""
    return pod_problem(pod, state.problem_criteria(pod.revision, room))


def first_problem_of(
    pods: Iterable[PodView], workloads: Iterable[Manifest], state: State, room: RoomCriterion
) -> Problem | None:
    """Return the worst problem of `pods` and `workloads` by the criteria of the current revision."""
    return worst_pod_problem(pods, workloads, state.problem_criteria(state.current_name or "", room))
