"""One pass, as a function: what was observed goes in, everything that is to be done comes out."""

from dataclasses import replace

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Plan, SetGate
from gaudi_operator.core.canary import on_trial
from gaudi_operator.core.checks import Violation, first_violation
from gaudi_operator.core.children import delete, missing_writes
from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.desired import desired_children
from gaudi_operator.core.doubts import estimated_violation
from gaudi_operator.core.events import events
from gaudi_operator.core.garbage import garbage, unread_config_maps
from gaudi_operator.core.inference import Inference, SpecUnreadable, read_identity, read_inference, read_status
from gaudi_operator.core.inputs import revision_inputs, same_inputs
from gaudi_operator.core.last_errors import last_errors
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.outlook import outlook
from gaudi_operator.core.patience import look_again_seconds
from gaudi_operator.core.pods import PodView, read_pods, with_gates
from gaudi_operator.core.policy import rollout_policy
from gaudi_operator.core.recompiling import judge_gates
from gaudi_operator.core.revision import Revision, stored_revisions, to_run, why_not_kept, wished_revision
from gaudi_operator.core.rollback import Choice, choose
from gaudi_operator.core.rollout import Policy, Progress, Step, next_step
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.status import make_status, throttled
from gaudi_operator.core.surge import unblock, why_in_place
from gaudi_operator.core.troubles import Circumstances, Trouble, first_trouble
from gaudi_operator.core.unreadable import unreadable_status
from gaudi_operator.core.workload import count_pods, leaving, live_replica_sets, running_revisions, wished_replicas


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
        self.stored: tuple[Revision, ...] = stored_revisions(observed.revisions)
        self.violation: Violation | None = self._violation()
        self.choice: Choice | None = self._choice()
        self.current: Revision | None = self._current()
        self.in_place: str | None = self._in_place()
        self.policy: Policy = self._policy()
        self.step: Step | None = self._step()

    def plan(self) -> Plan:
        """All of the outcome."""
        # Gates come first: a pod that has warmed up waits for nothing else.
        actions: list[Action] = [*self.gates, *self._children()]
        fresh = make_status(self._situation())
        status, wait = throttled(self.before, fresh, self.observed.status_written, self.observed.now)
        spec = self.inference.spec
        again = look_again_seconds(
            self.pods,
            wait,
            self.observed.now,
            observe_seconds=spec.rollout.canary.observe_seconds if self.policy.trial else 0,
            stall_seconds=spec.readiness.stall_timeout_seconds,
        )
        return Plan(tuple(actions), status, events(self.before, status, actions), again)

    def _violation(self) -> Violation | None:
        """Estimates count until a revision exists: from then on its pods say what is so."""
        if lost := why_not_kept(self.inference, self.stored):
            return Violation("RevisionNotKept", lost)
        found = first_violation(self.inference, self.defaults)
        wished = revision_inputs(self.inference)
        known = any(same_inputs(revision.inputs, wished) for revision in self.stored)
        if found or known or self.inference.spec.rollout.revision:
            return found
        return estimated_violation(self.inference)

    def _choice(self) -> Choice | None:
        """Nothing is chosen for a refused spec."""
        if self.violation is not None:
            return None
        wished = wished_revision(self.inference, self.stored, self.defaults)
        stable, rollout = self.before.revision.stable, self.inference.spec.rollout
        return choose(wished, self.stored, stable, self.pods, rollout, self._circumstances(wished.name))

    def _current(self) -> Revision | None:
        """A refused spec leaves what runs as it is: the revision that was last to run stays the current one."""
        if self.choice is None:
            return next(iter(self.stored), None)
        return to_run(self.choice.current, self.stored)

    def _in_place(self) -> str | None:
        if self.current is None or not self._upgrading():
            return None
        spec, replica_set = self.inference.spec, live_replica_sets(self.observed).get(self.current.name)
        return why_in_place(
            spec.rollout, spec.replicas, replica_set, self._pods_of(self.current.name), self.observed.now
        )

    def _upgrading(self) -> bool:
        """Whether pods of another revision are wished beside those of the current one."""
        sets = live_replica_sets(self.observed)
        name = self.current.name if self.current else None
        return any(each["spec"].get("replicas", 1) for revision, each in sets.items() if revision != name)

    def _policy(self) -> Policy:
        spec, failure = self.inference.spec, self.choice.wished.failure if self.choice else None
        held = failure is not None and self.choice is not None and not self.choice.rolled_back
        return rollout_policy(
            spec.rollout,
            spec.replicas,
            frozen=self.violation is not None or held,
            in_place=self.in_place is not None,
            trial=self._trial(),
        )

    def _trial(self) -> bool:
        seconds, stable = self.inference.spec.rollout.canary.observe_seconds, self.before.revision.stable
        return self.current is not None and on_trial(self.current.name, stable, self.pods, seconds, self.observed.now)

    def _step(self) -> Step | None:
        if self.current is None:
            return None
        current, olds = count_pods(self.current, self.stored, self.observed, self.pods)
        return next_step(current, olds, self.policy, leaving(self.pods, self.observed.now))

    def _circumstances(self, revision: str) -> Circumstances:
        """What troubles of the pods of `revision` are judged by."""
        spec, canary = self.inference.spec, self.inference.spec.rollout.canary
        observed = canary.observe_seconds and revision != self.before.revision.stable
        return Circumstances(
            spec.readiness,
            any(pod.terminating for pod in self.pods),
            self.observed.now,
            most_recompiles=canary.max_recompiles if observed else None,
            last_errors=self.last_errors,
        )

    def _pods_of(self, revision: str | None) -> list[PodView]:
        return [pod for pod in self.pods if pod.active and pod.revision == revision]

    def _children(self) -> list[Action]:
        if self.current is None or self.step is None:
            return []
        observed, limit = self.observed, self.inference.spec.rollout.revision_history_limit
        deletes, in_use = garbage(observed, self.current.name, self.stored, limit, self.before.revision.stable)
        running = running_revisions(self.current, self.stored, observed, in_use)
        replicas = wished_replicas(self.current, observed, self.step)
        in_place = {self.current.name: self.in_place} if self.in_place else {}
        wished = desired_children(
            self.inference, self._remembered(), running, replicas, self.policy, self.defaults, in_place
        )
        needed = {each.config_map for each in running}
        return [
            *missing_writes(wished, _children_of(observed)),
            *deletes,
            *unread_config_maps(observed, needed),
            *self._unwanted_policy(),
        ]

    def _remembered(self) -> list[Revision]:
        """The revisions whose numbers or failures may be news; that of a failure comes before what follows from it."""
        failed = [self.choice.wished] if self.choice and self.choice.rolled_back else []
        return [*failed, *([self.current] if self.current else [])]

    def _unwanted_policy(self) -> list[Action]:
        if self.inference.spec.network_access.enabled:
            return []
        return [delete(each, "spec.networkAccess is switched off") for each in self.observed.network_policies]

    def _situation(self) -> Situation:
        name = self.current.name if self.current else None
        return Situation(
            inference=self.inference,
            before=self.before,
            violation=self.violation,
            current=name,
            previous=self._previous(),
            stable=self._stable(),
            revisions=self._revisions(),
            policy=self.policy,
            step=self.step,
            pods=self.pods,
            choice=self.choice,
            in_place=self.in_place,
            last_errors=self.last_errors,
            trouble=self._trouble(),
            outlook=outlook(self.inference),
            now=self.observed.now,
        )

    def _trouble(self) -> Trouble | None:
        """A rollback is told as trouble once it is over: until then the operator is at work."""
        name = self.current.name if self.current else None
        sets = live_replica_sets(self.observed)
        moving = self.in_place is not None and self.step is not None and bool(self.step.scales)
        given = self._circumstances(name or "")
        waits = self._upgrading() and self.in_place is None and self.policy.max_surge > 0
        circumstances = replace(
            given,
            room_to_come=given.room_to_come or moving,
            unblock=unblock(self.inference.spec.rollout) if waits else None,
        )
        failed = self.choice.trouble if self.choice else None
        if failed and self.choice and not self.choice.rolled_back:
            return failed
        own = first_trouble(self._pods_of(name), [sets[name]] if name in sets else [], circumstances)
        done = self.step is not None and self.step.progress is Progress.DONE
        return own or (failed if done else None)

    def _stable(self) -> str | None:
        """What is rolled out wholly now, otherwise what was last."""
        done = self.step is not None and self.step.progress is Progress.DONE
        if self.current is not None and done and self.policy.wished:
            return self.current.name
        return self.before.revision.stable

    def _revisions(self) -> tuple[Revision, ...]:
        fresh = {revision.name: revision for revision in self._remembered()}
        return tuple({**{revision.name: revision for revision in self.stored}, **fresh}.values())

    def _previous(self) -> str | None:
        """The newest older revision that has pods, otherwise the one that was wished before the current one."""
        current = self.current.name if self.current else None
        with_pods = {pod.revision for pod in self.pods if pod.active}
        for revision in self.stored:
            if revision.name != current and revision.name in with_pods:
                return revision.name
        written = self.before.revision
        return written.current if written.current not in (None, current) else written.previous


def _children_of(observed: Observed) -> list[Manifest]:
    return [
        *observed.revisions,
        *observed.replica_sets,
        *observed.services,
        *observed.config_maps,
        *observed.service_accounts,
        *observed.pod_disruption_budgets,
        *observed.network_policies,
    ]
