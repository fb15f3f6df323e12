"""What a pass goes by (World), and the course of its rollout: which revision runs, beside or in place of the others,
and the next step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.problems import Circumstances, failed_pods_problem, first_problem, with_next_try
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.backoff import Record
from gaudi_operator.core.rollout.mode import unblock, why_in_place
from gaudi_operator.core.rollout.planner import Policy, Progress, Step, next_step, rollout_policy
from gaudi_operator.core.rollout.replicas import count_pods, full_replicas, leaving, live_workloads
from gaudi_operator.core.rollout.revision import Revision, to_run
from gaudi_operator.core.rollout.target import Choice, choose, on_trial
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class World:
    """All that a pass has seen and read once: the resource, its written status, its pods, its kept revisions, newest
    first, and what the installation allows.

    `last_errors` are by pod, `ends` by revision. `forbidden` says by revision why it gets no more pods.
    """

    inference: Inference
    before: GaudiInferenceStatus
    observed: Observed
    defaults: InstallationDefaults
    pods: Sequence[PodView]
    stored: tuple[Revision, ...]
    last_errors: dict[str, str]
    ends: Mapping[str, Record]
    forbidden: Mapping[str, Problem]

    def pods_of(self, revision: str | None) -> list[PodView]:
        """Pods of a revision that count as replicas."""
        return [pod for pod in self.pods if pod.active and pod.revision == revision]

    def upgrading(self, current: str) -> bool:
        """Whether pods of another revision are desired beside those of `current`."""
        sets = live_workloads(self.observed)
        return any(full_replicas(each) for revision, each in sets.items() if revision != current)

    def circumstances(self, revision: str) -> Circumstances:
        """What problems of the pods of `revision` are judged by."""
        spec, canary = self.inference.spec, self.inference.spec.rollout.canary
        observed = canary.observe_seconds and revision != self.before.revision.stable
        return Circumstances(
            spec.readiness,
            any(pod.terminating for pod in self.pods),
            self.observed.now,
            most_recompiles=canary.max_recompiles if observed else None,
            most_error_percent=canary.max_error_percent if observed else None,
            last_errors=self.last_errors,
        )


@dataclass(frozen=True)
class Course:
    """`choice` is None for a refused spec; `current` and `step` are None where nothing has ever run either."""

    choice: Choice | None
    current: Revision | None
    in_place: str | None
    policy: Policy
    step: Step | None

    @property
    def name(self) -> str | None:
        """Name of the revision that is to run."""
        return self.current.name if self.current else None

    @property
    def is_over(self) -> bool:
        """Whether the current revision is rolled out wholly, with at least one replica."""
        return self.step is not None and self.step.progress is Progress.DONE and self.policy.desired > 0

    @property
    def remembered(self) -> list[Revision]:
        """The revisions whose numbers or failures may be news; that of a failure comes before what follows from it."""
        failed = [self.choice.desired] if self.choice and self.choice.rolled_back else []
        return [*failed, *([self.current] if self.current else [])]


def set_course(world: World, desired: Revision | None, *, refused: bool) -> Course:
    """`desired` is what the spec asks for, None where it is refused: then what was last to run stays, as it is."""
    choice = _choice(world, desired) if desired else None
    current = to_run(choice.current, world.stored) if choice else next(iter(world.stored), None)
    in_place = _in_place(world, current.name) if current else None
    policy = _policy(world, current, in_place, frozen=refused or (choice is not None and choice.held))
    return Course(choice, current, in_place, policy, _step(world, current, policy))


def problem(world: World, course: Course) -> Problem | None:
    """What asks for a person. A rollback does once it is over: until then the operator is at work."""
    failed = course.choice.problem if course.choice else None
    if failed and course.choice and course.choice.held:
        return failed
    name, sets = course.name, live_workloads(world.observed)
    own = first_problem(world.pods_of(name), [sets[name]] if name in sets else [], _with_room(world, course))
    own = own or failed_pods_problem(world.pods, name or "")
    there, desired = len(world.pods_of(name)), course.policy.desired
    own = with_next_try(own, world.ends.get(name or ""), there, desired, world.observed.now)
    if (forbidden := world.forbidden.get(name or "")) and there < desired:
        own = own or Problem(forbidden.reason, forbidden.message)
    done = course.step is not None and course.step.progress is Progress.DONE
    return own or (failed if done else None)


def _choice(world: World, desired: Revision) -> Choice:
    stable, rollout = world.before.revision.stable, world.inference.spec.rollout
    given = world.circumstances(desired.name)
    return choose(desired, world.stored, stable, world.pods, rollout, given, world.forbidden)


def _in_place(world: World, current: str) -> str | None:
    if not world.upgrading(current):
        return None
    spec, workload = world.inference.spec, live_workloads(world.observed).get(current)
    now, mine = world.observed.now, world.pods_of(current)
    ending = leaving(world.pods, world.observed) > 0
    return why_in_place(spec.rollout, spec.replicas, workload, mine, now, room_to_come=ending)


def _policy(world: World, current: Revision | None, in_place: str | None, *, frozen: bool) -> Policy:
    spec, stable = world.inference.spec, world.before.revision.stable
    seconds, now = spec.rollout.canary.observe_seconds, world.observed.now
    trial = current is not None and on_trial(current.name, stable, world.pods, seconds, now)
    return rollout_policy(spec.rollout, spec.replicas, frozen=frozen, in_place=in_place is not None, trial=trial)


def _step(world: World, current: Revision | None, policy: Policy) -> Step | None:
    if current is None:
        return None
    mine, olds = count_pods(current, world.stored, world.observed, world.pods, world.forbidden)
    return next_step(mine, olds, policy, leaving(world.pods, world.observed))


def _with_room(world: World, course: Course) -> Circumstances:
    """With what is known of room: a step that takes pods away makes some, and an upgrade may wait for it."""
    given = world.circumstances(course.name or "")
    moving = course.in_place is not None and course.step is not None and bool(course.step.scales)
    stays = course.policy.max_surge > 0 and (course.policy.trial or course.policy.max_unavailable == 0)
    waits = stays and course.name is not None and world.upgrading(course.name)
    return replace(
        given,
        room_to_come=given.room_to_come or moving,
        unblock=unblock(world.inference.spec.rollout) if waits else None,
    )
