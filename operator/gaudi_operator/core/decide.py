"""One pass, as a function: what was observed goes in, everything that is to be done comes out."""

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Plan, SetGate
from gaudi_operator.core.checks import Violation, first_violation
from gaudi_operator.core.children import delete, missing_writes
from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.desired import desired_children
from gaudi_operator.core.doubts import estimated_violation
from gaudi_operator.core.events import events
from gaudi_operator.core.garbage import garbage, unread_config_maps
from gaudi_operator.core.gate import judge
from gaudi_operator.core.inference import Inference, SpecUnreadable, read_identity, read_inference, read_status
from gaudi_operator.core.inputs import revision_inputs, same_inputs
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.outlook import outlook
from gaudi_operator.core.patience import look_again_seconds
from gaudi_operator.core.pods import PodView, read_pods, with_gates
from gaudi_operator.core.policy import rollout_policy
from gaudi_operator.core.revision import Revision, stored_revisions, to_run, why_not_kept, wished_revision
from gaudi_operator.core.rollout import Policy, Progress, Step, next_step
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.status import make_status, throttled
from gaudi_operator.core.troubles import Circumstances, first_trouble
from gaudi_operator.core.unreadable import unreadable_status
from gaudi_operator.core.workload import count_pods, live_replica_sets, running_revisions, wished_replicas


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
        self.gates: list[SetGate] = [gate for pod in seen if (gate := judge(pod, inference.spec.readiness))]
        self.pods: tuple[PodView, ...] = with_gates(seen, self.gates, observed.now)
        self.stored: tuple[Revision, ...] = stored_revisions(observed.revisions)
        self.violation: Violation | None = self._violation()
        self.current: Revision | None = self._current()
        self.policy: Policy = rollout_policy(
            inference.spec.rollout, inference.spec.replicas, frozen=self.violation is not None
        )
        self.step: Step | None = self._step()

    def plan(self) -> Plan:
        """All of the outcome."""
        # Gates come first: a pod that has warmed up waits for nothing else.
        actions: list[Action] = [*self.gates, *self._children()]
        fresh = make_status(self._situation())
        status, wait = throttled(self.before, fresh, self.observed.status_written, self.observed.now)
        again = look_again_seconds(self.pods, wait, self.observed.now)
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

    def _current(self) -> Revision | None:
        """A refused spec leaves what runs as it is: the last accepted revision stays the wished one."""
        if self.violation is not None:
            return next(iter(self.stored), None)
        return to_run(wished_revision(self.inference, self.stored, self.defaults), self.stored)

    def _step(self) -> Step | None:
        if self.current is None:
            return None
        return next_step(*count_pods(self.current, self.stored, self.observed, self.pods), self.policy)

    def _children(self) -> list[Action]:
        if self.current is None or self.step is None:
            return []
        observed, limit = self.observed, self.inference.spec.rollout.revision_history_limit
        deletes, in_use = garbage(observed, self.current.name, self.stored, limit, self.before.revision.stable)
        running = running_revisions(self.current, self.stored, observed, in_use)
        replicas = wished_replicas(self.current, observed, self.step)
        wished = desired_children(self.inference, self.current, running, replicas, self.policy, self.defaults)
        needed = {each.config_map for each in running}
        return [
            *missing_writes(wished, _children_of(observed)),
            *deletes,
            *unread_config_maps(observed, needed),
            *self._unwanted_policy(),
        ]

    def _unwanted_policy(self) -> list[Action]:
        if self.inference.spec.network_access.enabled:
            return []
        return [delete(each, "spec.networkAccess is switched off") for each in self.observed.network_policies]

    def _situation(self) -> Situation:
        name = self.current.name if self.current else None
        mine = [pod for pod in self.pods if pod.active and pod.revision == name]
        circumstances = Circumstances(
            self.inference.spec.readiness, any(pod.terminating for pod in self.pods), self.observed.now
        )
        sets = live_replica_sets(self.observed)
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
            trouble=first_trouble(mine, [sets[name]] if name in sets else [], circumstances),
            outlook=outlook(self.inference),
            now=self.observed.now,
        )

    def _stable(self) -> str | None:
        """What is rolled out wholly now, otherwise what was last."""
        done = self.step is not None and self.step.progress is Progress.DONE
        if self.current is not None and done and self.policy.wished:
            return self.current.name
        return self.before.revision.stable

    def _revisions(self) -> tuple[Revision, ...]:
        known = {revision.name: revision for revision in self.stored}
        return tuple({**known, **({self.current.name: self.current} if self.current else {})}.values())

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
