"""What one reconcile has found out, gathered once: first what was read, then what the rollout makes of it.

`Observed` (observed.py) goes into a reconcile; a `State` is what its decisions read. Its parts are filled in the
order in which decide() finds them, and each function reads only what stands before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.classes import NO_CLASS, Platform
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import InstallationDefaults, Observed
from gaudi_operator.core.pods.terminations import Termination
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.criteria import Criteria, Room
from gaudi_operator.core.problems.mending import needs_a_person, worst
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.backoff import Attempts
from gaudi_operator.core.rollout.planner import Policy, Progress, Step
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.errors import Problem

LEARNED_PLAN_SECONDS = 600
"""How long the canary of a learned plan is observed unless the spec says otherwise: at one prompt in three seconds it
runs FEWEST_PROMPTS meanwhile.
"""


@dataclass(frozen=True)
class Choice:
    """`desired` is asked for, with its failure if it has one; `current` is to run; `on_hold` where it failed and stays.

    `problem` is what a failed revision asks of a person.
    """

    desired: Revision
    current: Revision
    on_hold: bool = False
    problem: Problem | None = None

    @property
    def rolled_back(self) -> bool:
        """Whether another revision than the desired one runs."""
        return self.desired.name != self.current.name


@dataclass(frozen=True)
class RolloutState:
    """Where a rollout stands. `choice` is None for a refused spec; `current` and `step` where nothing ever ran either.

    `in_place` says why the rollout does not surge although the spec permits it.
    """

    policy: Policy
    choice: Choice | None = None
    current: Revision | None = None
    step: Step | None = None
    in_place: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the current revision is rolled out wholly, with at least one replica."""
        return self.step is not None and self.step.progress is Progress.DONE and self.policy.desired > 0

    @property
    def remembered(self) -> list[Revision]:
        """The revisions whose numbers or failures may be news; that of a failure comes before what follows from it."""
        failed = [self.choice.desired] if self.choice and self.choice.rolled_back else []
        return [*failed, *([self.current] if self.current else [])]


@dataclass(frozen=True)
class State:
    """All that a reconcile has seen, read once: the resource, its written status (`before`), its pods as they are once
    their gates are written, its kept revisions, newest first, and what the installation allows.

    `terminations` are by pod, `attempts` by revision; `forbidden` says by revision why it gets no more pods.
    `platform` is its class; `violation` is what is wrong with the spec, `problem` the worst that keeps its pods from
    serving.
    """

    inference: Inference
    before: GaudiInferenceStatus
    observed: Observed
    defaults: InstallationDefaults
    deadlines: Deadlines
    pods: tuple[PodView, ...]
    stored: tuple[Revision, ...]
    terminations: Mapping[str, Termination]
    attempts: Mapping[str, Attempts]
    forbidden: Mapping[str, Problem]
    rollout: RolloutState
    platform: Platform = NO_CLASS
    violation: Problem | None = None
    problem: Problem | None = None

    @property
    def trouble(self) -> Problem | None:
        """What keeps the resource from what is desired until somebody acts."""
        return worst(each for each in (self.violation, self.problem) if each)

    @property
    def stalls(self) -> bool:
        """Whether a person must act on the trouble: others cannot mend it, or have had their time."""
        found, seconds = self.trouble, self.inference.spec.rollout.progress_deadline_seconds
        return found is not None and needs_a_person(found, seconds, self.deadlines)

    @property
    def current(self) -> str | None:
        """Name of the revision that is to run; None where nothing ever was."""
        return self.rollout.current.name if self.rollout.current else None

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """All kept ones, with what has become of some in this reconcile."""
        fresh = {revision.name: revision for revision in self.rollout.remembered}
        return tuple({**{revision.name: revision for revision in self.stored}, **fresh}.values())

    @property
    def stable(self) -> str | None:
        """Name of the revision that was last rolled out wholly."""
        return self.current if self.rollout.is_over else self.before.revision.stable

    def brings_learned_plan(self, revision: str | None) -> bool:
        """Whether `revision` has a plan that was learned from traffic, and the stable one has another plan."""
        plans = {each.name: each.learned_plan for each in self.revisions}
        stable = self.before.revision.stable
        mine = plans.get(revision) if revision else None
        return mine is not None and stable in plans and mine != plans[stable]

    def observe_seconds(self, revision: str | None) -> int:
        """How long the canary of `revision` is observed."""
        asked = self.inference.spec.rollout.canary.observe_seconds
        if asked is not None:
            return asked
        return LEARNED_PLAN_SECONDS if self.brings_learned_plan(revision) else 0

    def criteria(self, revision: str, room: Room) -> Criteria:
        """Return what the pods of `revision` are judged by."""
        spec = self.inference.spec
        # Its pods restart by the timeout of their own revision, whatever the spec says now.
        timeout = next((each.stall_timeout_seconds for each in self.stored if each.name == revision), None)
        return Criteria(
            resource=self.inference.identity.name,
            readiness=spec.readiness,
            canary=spec.rollout.canary,
            deadlines=self.deadlines,
            terminations=self.terminations,
            stall_seconds=timeout or spec.warmup.stall_timeout_seconds,
            observed=revision != self.before.revision.stable and self.observe_seconds(revision) > 0,
            learned_plan=self.brings_learned_plan(revision),
            room=room,
        )

    @property
    def desired(self) -> int:
        """Desired replicas."""
        return self.rollout.policy.desired

    @property
    def active(self) -> tuple[PodView, ...]:
        """Pods that count as replicas."""
        return tuple(pod for pod in self.pods if pod.active)

    def active_of(self, revision: str | None) -> tuple[PodView, ...]:
        """Those of one revision."""
        return tuple(pod for pod in self.active if pod.revision == revision)

    @property
    def updated(self) -> tuple[PodView, ...]:
        """Those of the current revision."""
        return self.active_of(self.current)

    @property
    def old(self) -> tuple[PodView, ...]:
        """Those of older revisions."""
        return tuple(pod for pod in self.active if pod.revision != self.current)

    @property
    def serving(self) -> tuple[PodView, ...]:
        """Pods that take traffic, of any revision."""
        return tuple(pod for pod in self.active if pod.ready)

    @property
    def serving_updated(self) -> tuple[PodView, ...]:
        """Pods of the current revision that take traffic."""
        return tuple(pod for pod in self.updated if pod.ready)
