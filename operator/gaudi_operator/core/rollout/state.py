"""The state of one reconcile: the observed data, and the values that the rollout derives from them.

`Observed` (observed.py) is the input of a reconcile. Decisions read a `State`. decide() fills the parts of the state in
order, and each step of decide() reads only parts that earlier steps have filled.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, LastTermination, PlanState
from gaudi_operator.core.classes import NO_CLASS, ResolvedClass
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import ProblemCriteria, RoomCriterion
from gaudi_operator.core.problems.resolution import needs_user_resolution, worst_unresolved_problem
from gaudi_operator.core.rollout.backoff import BackOffRecord
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.rollout_step import RolloutStep, RolloutStepLimits, RolloutStepProgress
from gaudi_runtime.errors import Problem

LEARNED_PLAN_SECONDS = 600
"""The default observation time in seconds of a learned plan's canary.

At one prompt every three seconds, the canary runs FEWEST_PROMPTS prompts in this time.
"""


@dataclass(frozen=True)
class RevisionState:
    """The revision that runs (`current`), and the revision that the spec requests (`desired`).

    `on_hold` is True if a failed revision keeps running. `problem` tells the user how to handle the failure.
    """

    desired: Revision
    current: Revision
    on_hold: bool = False
    problem: Problem | None = None

    @property
    def is_rolled_back(self) -> bool:
        """Whether the running revision is not the desired revision."""
        return self.desired.name != self.current.name


@dataclass(frozen=True)
class RolloutState:
    """The rollout's part of the state: its limits, its revisions and its next step.

    `choice` is None if the spec was refused. `current` and `step` are None if no revision ever ran. `in_place_reason`
    is the reason why the rollout does not surge although the spec permits a surge. `excess` is a phrase about requested
    replicas that the class does not allow.
    """

    policy: RolloutStepLimits
    choice: RevisionState | None = None
    current: Revision | None = None
    step: RolloutStep | None = None
    in_place_reason: str | None = None
    excess: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the rollout of the current revision is complete and at least one replica is desired."""
        return self.step is not None and self.step.progress is RolloutStepProgress.DONE and self.policy.replicas > 0

    @property
    def revisions_to_record(self) -> list[Revision]:
        """The revisions whose number or history may need a write. A failed revision comes first."""
        failed = [self.choice.desired] if self.choice and self.choice.is_rolled_back else []
        return [*failed, *([self.current] if self.current else [])]


@dataclass(frozen=True)
class State:
    """The state of one reconcile, which its decisions read.

    `previous_status` is the written status. `pods` have the state that they will have after the gate writes. `stored`
    contains the revisions, newest first. `terminations` is keyed by pod name, `failures` by revision name. `forbidden`
    contains the reason why a revision gets no more pods. `platform` is the class of the resource. `violation` is the
    fault in the spec, and `problem` is the worst problem that prevents pods from serving. `plan` contains the best
    known figures of the plan (status/warmup_figures.py), or is None if no plan is possible.
    """

    inference: Inference
    previous_status: GaudiInferenceStatus
    observed: Observed
    defaults: InstallationDefaults
    deadlines: Deadlines
    pods: tuple[PodView, ...]
    stored: tuple[Revision, ...]
    terminations: Mapping[str, LastTermination]
    failures: Mapping[str, BackOffRecord]
    forbidden: Mapping[str, Problem]
    rollout: RolloutState
    platform: ResolvedClass = NO_CLASS
    violation: Problem | None = None
    problem: Problem | None = None
    plan: PlanState | None = None

    @property
    def worst_problem(self) -> Problem | None:
        """The worst problem that prevents the resource from reaching its desired state."""
        return worst_unresolved_problem(problem for problem in (self.violation, self.problem) if problem)

    @property
    def is_stalled(self) -> bool:
        """Whether a user must act: only a user can resolve the worst problem, or its deadline has passed."""
        problem, deadline_seconds = self.worst_problem, self.inference.spec.rollout.obstacle_deadline_seconds
        return problem is not None and needs_user_resolution(problem, deadline_seconds, self.deadlines)

    @property
    def current_name(self) -> str | None:
        """The name of the revision to run, or None if no revision ever ran."""
        return self.rollout.current.name if self.rollout.current else None

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """All stored revisions, including the changes of this reconcile."""
        changes = {revision.name: revision for revision in self.rollout.revisions_to_record}
        return tuple({**{revision.name: revision for revision in self.stored}, **changes}.values())

    @property
    def stable_name(self) -> str | None:
        """The name of the last revision whose rollout was completed."""
        return self.current_name if self.rollout.is_complete else self.previous_status.revision.stable

    @property
    def served_revisions(self) -> frozenset[str]:
        """The names of the revisions that have or had a ready pod. The canary of a revision on trial does not count."""
        serves = not self.rollout.policy.trial and any(pod.is_ready for pod in self.updated_pods)
        return self.previous_status.served_revisions | ({self.current_name} if self.current_name and serves else set())

    def has_new_learned_plan(self, revision: str | None) -> bool:
        """Return True if `revision` has a plan learned from traffic and the stable revision has another plan."""
        plans = {candidate.name: candidate.learned_plan for candidate in self.revisions}
        stable = self.previous_status.revision.stable
        plan = plans.get(revision) if revision else None
        return plan is not None and stable in plans and plan != plans[stable]

    def observe_seconds(self, revision: str | None) -> int:
        """Return the seconds for which the canary of `revision` is observed."""
        seconds = self.inference.spec.rollout.canary.observe_seconds
        if seconds is not None:
            return seconds
        return LEARNED_PLAN_SECONDS if self.has_new_learned_plan(revision) else 0

    def problem_criteria(self, revision: str, room: RoomCriterion) -> ProblemCriteria:
        """Return the criteria that decide whether pods of `revision` have a problem."""
        spec = self.inference.spec
        # Use the stall timeout of the pod's own revision. The current spec may have another one.
        stall_timeout = next((stored.stall_timeout_seconds for stored in self.stored if stored.name == revision), None)
        return ProblemCriteria(
            resource=self.inference.identity.name,
            template=next((candidate.template for candidate in self.revisions if candidate.name == revision), {}),
            bound_claims=frozenset(pvc["metadata"]["name"] for pvc in self.observed.pvcs if _is_bound(pvc)),
            readiness=spec.readiness,
            canary=spec.rollout.canary,
            deadlines=self.deadlines,
            terminations=self.terminations,
            stall_seconds=stall_timeout or spec.warmup.stall_timeout_seconds,
            is_observed=revision != self.previous_status.revision.stable and self.observe_seconds(revision) > 0,
            has_learned_plan=self.has_new_learned_plan(revision),
            room=room,
        )

    @property
    def desired_replicas(self) -> int:
        """The desired replicas."""
        return self.rollout.policy.replicas

    @property
    def active_pods(self) -> tuple[PodView, ...]:
        """The pods that count as replicas."""
        return tuple(pod for pod in self.pods if pod.is_active)

    def active_pods_of(self, revision: str | None) -> tuple[PodView, ...]:
        """Return the active pods of one revision."""
        return tuple(pod for pod in self.active_pods if pod.revision == revision)

    @property
    def updated_pods(self) -> tuple[PodView, ...]:
        """The active pods of the current revision."""
        return self.active_pods_of(self.current_name)

    @property
    def old_pods(self) -> tuple[PodView, ...]:
        """The active pods of older revisions."""
        return tuple(pod for pod in self.active_pods if pod.revision != self.current_name)

    @property
    def serving_pods(self) -> tuple[PodView, ...]:
        """The pods of any revision that receive traffic."""
        return tuple(pod for pod in self.active_pods if pod.is_ready)

    @property
    def serving_updated_pods(self) -> tuple[PodView, ...]:
        """The pods of the current revision that receive traffic."""
        return tuple(pod for pod in self.updated_pods if pod.is_ready)


def _is_bound(pvc: Manifest) -> bool:
    return bool((pvc.get("spec") or {}).get("volumeName"))
