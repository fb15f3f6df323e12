"""One pass, as a function: what was observed goes in, everything that is to be done comes out."""

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Plan, SetCost, SetGate
from gaudi_operator.core.admission.checks import first_violation, groups_are_not_served, revision_is_not_allowed
from gaudi_operator.core.admission.review import estimated_violation, outlook
from gaudi_operator.core.children.desired import desired_children, recipe_claims, recipe_readers
from gaudi_operator.core.children.diff import delete, missing_writes
from gaudi_operator.core.children.garbage import garbage, unread_config_maps
from gaudi_operator.core.deadlines import asks_first, look_again_seconds
from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.gate import judge_gates
from gaudi_operator.core.pods.terminations import last_errors
from gaudi_operator.core.pods.view import PodView, read_pods, with_gates
from gaudi_operator.core.resource import Inference, SpecUnreadable, read_identity, read_inference, read_status
from gaudi_operator.core.rollout.backoff import Record, held, next_try_seconds, records
from gaudi_operator.core.rollout.planner import rollout_policy
from gaudi_operator.core.rollout.replicas import running_revisions, wished_replicas, with_workloads, written_replicas
from gaudi_operator.core.rollout.revision import Revision, stored_revisions, why_not_kept, wished_revision
from gaudi_operator.core.rollout.scale_down import SEEN_SECONDS, deletion_costs, held_back
from gaudi_operator.core.rollout.state import Course, World, problem, set_course
from gaudi_operator.core.status.conditions import learning_seconds
from gaudi_operator.core.status.events import events
from gaudi_operator.core.status.situation import Situation
from gaudi_operator.core.status.status import make_status, throttled, unreadable_status
from gaudi_runtime.problem import Problem


def decide(observed: Observed, defaults: InstallationDefaults) -> Plan:
    """The actions, the status and the events of one pass."""
    before = read_status(observed.resource)
    if read_identity(observed.resource).deleting:
        return Plan((), before)
    try:
        inference = read_inference(observed.resource)
    except SpecUnreadable as error:
        status = unreadable_status(observed, before, str(error))
        return Plan((), status, events(before, status, ()))
    return _Pass(inference, before, observed, defaults).plan()


class _Pass:
    """The steps of one pass, each from those before it."""

    def __init__(
        self,
        inference: Inference,
        before: GaudiInferenceStatus,
        observed: Observed,
        defaults: InstallationDefaults,
    ) -> None:
        self.inference, self.before, self.observed, self.defaults = inference, before, observed, defaults
        seen = read_pods(observed)
        promised = rollout_policy(inference.spec.rollout, inference.spec.replicas).floor
        self.gates: list[SetGate] = judge_gates(seen, inference.spec.readiness, promised, observed.now)
        self.pods: tuple[PodView, ...] = with_gates(seen, self.gates, observed.now)
        self.last_errors: dict[str, str] = last_errors(self.pods, before, observed.reports)
        self.ends: dict[str, Record] = records(self.pods, before, self.last_errors)
        self.stored: tuple[Revision, ...] = stored_revisions(observed.revisions)
        self.violation: Problem | None = self._violation()
        self.world = World(
            inference, before, observed, self.pods, self.stored, self.last_errors, self.ends, self._forbidden()
        )
        self.course: Course = set_course(self.world, self._wished(), refused=self.violation is not None)
        self.desired: dict[str, int] = {}
        self.replicas: dict[str, int] = {}
        self.costs: list[SetCost] = []
        if self.course.current and self.course.step:
            wished = wished_replicas(self.course.current, observed, self.course.step)
            self.costs = deletion_costs(self.pods, wished)
            self.desired = held_back(wished, written_replicas(observed), self.costs)
            self.replicas = held(self.desired, self.pods, self.ends, observed.now)

    def plan(self) -> Plan:
        """All of the outcome."""
        # Gates come first: a pod that has warmed up waits for nothing else.
        actions: list[Action] = [*self.gates, *self.costs, *self._children()]
        fresh = make_status(self._situation())
        status, wait = throttled(self.before, fresh, self.observed.status_written, self.observed.now)
        spec, next_try = self.inference.spec, next_try_seconds(self.ends.values(), self.observed.now)
        learning = learning_seconds(next(iter(self.observed.autoscalers), None), self.observed.now)
        again = look_again_seconds(
            self.pods,
            min(filter(None, (wait, SEEN_SECONDS if self.costs else None, next_try, learning)), default=None),
            self.observed.now,
            observe_seconds=spec.rollout.canary.observe_seconds if self.course.policy.trial else 0,
            stall_seconds=spec.readiness.stall_timeout_seconds,
            workloads=self.observed.workloads,
        )
        ask = asks_first(self.pods, again, self.observed.now, spec.readiness.stall_timeout_seconds)
        return Plan(tuple(actions), status, events(self.before, status, actions), again, ask)

    def _violation(self) -> Problem | None:
        """Estimates count until a revision exists: from then on its pods say what is so."""
        if lost := why_not_kept(self.inference, self.stored):
            return Problem("RevisionNotKept", lost)
        found = first_violation(self.inference, self.defaults) or groups_are_not_served(self.inference, self.observed)
        if found:
            return found
        wished = wished_revision(self.inference, self.stored, self.defaults)
        if wished.name in {revision.name for revision in self.stored}:
            return revision_is_not_allowed(wished, self.defaults)
        return estimated_violation(self.inference)

    def _forbidden(self) -> dict[str, Problem]:
        """The revisions that this installation allows no more pods of, whatever it allowed when they were made."""
        every = [*self.stored, *with_workloads(self.stored, self.observed)]
        judged = ((each.name, revision_is_not_allowed(each, self.defaults)) for each in every)
        return {name: violation for name, violation in judged if violation}

    def _wished(self) -> Revision | None:
        """Nothing is chosen for a refused spec."""
        if self.violation is not None:
            return None
        return wished_revision(self.inference, self.stored, self.defaults)

    def _children(self) -> list[Action]:
        course, observed = self.course, self.observed
        if course.current is None or course.step is None:
            return []
        limit = self.inference.spec.rollout.revision_history_limit
        deletes, in_use = garbage(observed, course.current.name, self.stored, limit, self.before.revision.stable)
        running = running_revisions(course.current, self.stored, observed, in_use)
        in_place = {course.current.name: course.in_place} if course.in_place else {}
        wished = desired_children(
            self.inference,
            course.remembered,
            running,
            self.replicas,
            course.policy,
            self.defaults,
            in_place,
            self._kept(),
        )
        readers = recipe_readers(self.inference, running, self._revisions())
        needed = {*(each.config_map for each in running), *(each["metadata"]["name"] for each in readers)}
        return [
            *missing_writes([*readers, *wished], _children_of(observed)),
            *deletes,
            *unread_config_maps(observed, needed),
            *recipe_claims(self.inference, running, observed.claims),
            *self._unwanted(),
        ]

    def _kept(self) -> dict[str, int]:
        """What older revisions have again after a back-off: the rollout gives more pods to the current one alone."""
        dropped = {self.course.name, *(each.name for each in self._revisions() if each.failure)}
        lowered = (name for name, count in self.replicas.items() if count < self.desired[name])
        return {name: self.desired[name] for name in lowered if name not in dropped}

    def _unwanted(self) -> list[Action]:
        spec, observed = self.inference.spec, self.observed
        policies = () if spec.network_access.enabled else observed.network_policies
        autoscalers = () if spec.autoscaling else observed.autoscalers
        return [
            *(delete(each, "spec.networkAccess is switched off") for each in policies),
            *(delete(each, "spec.autoscaling is left out") for each in autoscalers),
        ]

    def _situation(self) -> Situation:
        course = self.course
        return Situation(
            inference=self.inference,
            before=self.before,
            violation=self.violation,
            current=course.name,
            previous=self._previous(),
            stable=course.name if course.is_over else self.before.revision.stable,
            revisions=self._revisions(),
            policy=course.policy,
            step=course.step,
            pods=self.pods,
            choice=course.choice,
            in_place=course.in_place,
            last_errors=self.last_errors,
            problem=problem(self.world, course),
            outlook=outlook(self.inference),
            ends=self.ends,
            now=self.observed.now,
            autoscaler=next(iter(self.observed.autoscalers), None),
        )

    def _revisions(self) -> tuple[Revision, ...]:
        fresh = {revision.name: revision for revision in self.course.remembered}
        return tuple({**{revision.name: revision for revision in self.stored}, **fresh}.values())

    def _previous(self) -> str | None:
        """The newest older revision that has pods, otherwise the one that was wished before the current one."""
        current = self.course.name
        with_pods = {pod.revision for pod in self.pods if pod.active}
        for revision in self.stored:
            if revision.name != current and revision.name in with_pods:
                return revision.name
        written = self.before.revision
        return written.current if written.current not in (None, current) else written.previous


def _children_of(observed: Observed) -> list[Manifest]:
    return [
        *observed.revisions,
        *observed.workloads,
        *observed.services,
        *observed.config_maps,
        *observed.service_accounts,
        *observed.pod_disruption_budgets,
        *observed.network_policies,
        *observed.autoscalers,
    ]
