"""One reconcile as a pure function: the observed state determines the actions, the status and the events."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Decision, SetGate, changes_live_objects
from gaudi_operator.core.admission.checks import (
    check_groups_served,
    check_published_access,
    check_revision_allowed,
    first_violation,
)
from gaudi_operator.core.admission.forecast_checks import check_plan_gaps, estimated_violation
from gaudi_operator.core.admission.plugin import plugin_violation
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.spec_limits import first_limit_violation
from gaudi_operator.core.children.desired import child_actions
from gaudi_operator.core.classes import ResolvedClass, fill_class_defaults, resolve_class
from gaudi_operator.core.config_map_texts import insert_texts
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import pods_with_gates
from gaudi_operator.core.gate.judgement import judge_gates
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.plan_answers import SYNCHRONOUS_ANSWERS, AnswerNotComputed, PlanAnswers
from gaudi_operator.core.pods.terminations import terminations_by_pod
from gaudi_operator.core.pods.view import PodView, read_pods
from gaudi_operator.core.problems.resolution import RESOLVED_BY_OTHERS, spec_refused_since
from gaudi_operator.core.resource import Inference, SpecUnreadable, read_identity, read_inference, read_status
from gaudi_operator.core.rollout.backoff import failure_records
from gaudi_operator.core.rollout.controller_revision import stored_revisions
from gaudi_operator.core.rollout.desired_revision import describe_missing_pin, desired_revision, use_stored_mode
from gaudi_operator.core.rollout.live_workloads import revisions_with_workloads
from gaudi_operator.core.rollout.planner import RolloutPolicy, rollout_policy
from gaudi_operator.core.rollout.replicas import plan_replicas, spec_replicas_by_revision
from gaudi_operator.core.rollout.revision import AppliedClassDefaults, Revision
from gaudi_operator.core.rollout.rollout import plan_rollout
from gaudi_operator.core.rollout.scale_down import count_pending_removals
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_operator.core.status.events import reconcile_events
from gaudi_operator.core.status.plan import plan_state
from gaudi_operator.core.status.refusal import unreadable_status
from gaudi_operator.core.status.status import have_all_pods_reported, make_status, throttle_status
from gaudi_runtime.errors import Problem

FOLLOW_UP_SECONDS = 0.1
"""Seconds until the next reconcile after a write of children.

The operator's own writes trigger no reconcile, unless they create or remove pods.
"""


def decide(
    observed: Observed,
    defaults: InstallationDefaults,
    answers: PlanAnswers = SYNCHRONOUS_ANSWERS,
    read: Callable[[Manifest, PlanAnswers], Inference] = read_inference,
) -> Decision:
    """Decide the actions, the status and the events of one reconcile.

    The order is: gates by pod reports, admission of the spec, the next rollout step, children, status. `answers`
    contains the computed answers to plan questions. `read` parses the resource and may return a cached value.
    """
    judged = _decide_gates(observed, defaults, answers, read)
    if isinstance(judged, Decision):
        return judged
    try:
        return _decide_by_plan(judged, observed, defaults)
    except AnswerNotComputed as error:
        return replace(_gate_only_decision(judged), question=error.question)


@dataclass(frozen=True)
class JudgedGates:
    """The gate writes, which a reconcile decides first, and the inputs of this decision.

    `pods` have the state that they will have after the gate writes.
    """

    inference: Inference
    platform: ResolvedClass
    before: GaudiInferenceStatus
    deadlines: Deadlines
    promised: RolloutPolicy
    gates: Sequence[SetGate]
    pods: tuple[PodView, ...]


def _decide_gates(
    observed: Observed,
    defaults: InstallationDefaults,
    answers: PlanAnswers,
    read: Callable[[Manifest, PlanAnswers], Inference],
) -> JudgedGates | Decision:
    """Judge the gates. Return a Decision if the reconcile ends here, for example for an unreadable spec."""
    before, deadlines = read_status(observed.resource), Deadlines(observed.now)
    if read_identity(observed.resource).deleting:
        return Decision((), before)  # the garbage collector of the cluster deletes the children
    try:
        inference = read(insert_texts(observed.resource, observed.texts), answers)
    except SpecUnreadable as error:
        status = unreadable_status(observed, before, str(error))
        return Decision((), status, reconcile_events(before, status, ()))

    platform = resolve_class(inference, observed, defaults)
    if platform.elsewhere:
        return Decision((), before)  # another installation in the cluster serves this resource
    promised = rollout_policy(inference.spec.rollout, inference.spec.replicas)
    pods = read_pods(observed)
    to_go = count_pending_removals(pods, spec_replicas_by_revision(observed))
    gates = judge_gates(pods, inference.spec.readiness, promised.min_available_pods, deadlines, to_go)
    pods = pods_with_gates(pods, gates, observed.now)
    return JudgedGates(inference, platform, before, deadlines, promised, gates, pods)


def _gate_only_decision(judged: JudgedGates) -> Decision:
    """Return a decision with only the gate writes and their events, because the plan is not computed yet."""
    shown = reconcile_events(judged.before, judged.before, judged.gates, *_pods_in_status(judged))
    return Decision(tuple(judged.gates), judged.before, shown, judged.deadlines.requeue_after)


def _pods_in_status(judged: JudgedGates) -> tuple[tuple[PodView, ...], int]:
    """Return (pods of the revision in the status, desired number), or ((), 0) if the spec is newer than the status."""
    before = judged.before
    if before.observed_generation != judged.inference.identity.generation:
        return (), 0
    updated = (pod for pod in judged.pods if pod.is_active and pod.revision == before.revision.current)
    return tuple(updated), judged.promised.desired


def _decide_by_plan(judged: JudgedGates, observed: Observed, defaults: InstallationDefaults) -> Decision:
    """Decide everything that depends on the bucket plan of the spec."""
    before, deadlines = judged.before, judged.deadlines
    state, policy = _build_state(judged, observed, defaults)
    violation, desired = _admit_spec(state, policy)
    state = plan_rollout(replace(state, violation=violation), desired)
    state, scaling = replace(state, plan=plan_state(state)), plan_replicas(state)
    children = child_actions(state, scaling)
    if any(changes_live_objects(each, observed) for each in children):
        deadlines.schedule_requeue(FOLLOW_UP_SECONDS)
    actions: list[Action] = [*judged.gates, *scaling.costs, *children]
    fresh = make_status(state)
    status, held = throttle_status(before, fresh, observed, deadlines, reported=have_all_pods_reported(state))
    return Decision(
        tuple(actions),
        status,
        reconcile_events(before, status, actions, state.updated_pods, state.desired_replicas),
        deadlines.requeue_after,
        status_held=held,
    )


def _build_state(judged: JudgedGates, observed: Observed, defaults: InstallationDefaults) -> tuple[State, PodPolicy]:
    """Return the state before the rollout is planned, and the pod policy of the installation and the class."""
    before, pods, identity = judged.before, judged.pods, judged.inference.identity
    platform = replace(judged.platform, problem=_add_start_time(judged.platform.problem, before, judged.deadlines))
    found, stored = terminations_by_pod(pods, before, observed.reports), stored_revisions(observed.revisions)
    policy = PodPolicy(identity.namespace, defaults.allow_host_path, platform, identity.name, judged.inference.spec)
    state = State(
        inference=use_stored_mode(judged.inference, stored),
        before=before,
        observed=observed,
        defaults=defaults,
        deadlines=judged.deadlines,
        pods=pods,
        stored=stored,
        terminations=found,
        failures=failure_records(pods, before, found),
        forbidden=_forbidden_revisions((*stored, *revisions_with_workloads(stored, observed)), policy, defaults),
        rollout=RolloutState(judged.promised),
        platform=platform,
    )
    return state, policy


def _add_start_time(found: Problem | None, before: GaudiInferenceStatus, deadlines: Deadlines) -> Problem | None:
    """Return the problem. If other users or controllers can resolve the problem, it has a start time."""
    if found is None or found.reason not in RESOLVED_BY_OTHERS:
        return found
    return replace(found, since=spec_refused_since(found.reason, before.conditions) or deadlines.now)


def _forbidden_revisions(
    revisions: Iterable[Revision], policy: PodPolicy, defaults: InstallationDefaults
) -> dict[str, Problem]:
    """Return a problem for each revision whose pods this installation no longer permits, by revision name."""
    judged = ((each.name, check_revision_allowed(each, policy, defaults)) for each in revisions)
    return {name: violation for name, violation in judged if violation}


def _admit_spec(state: State, policy: PodPolicy) -> tuple[Problem | None, Revision | None]:
    """Return (violation of the spec, None) or (None, revision that the spec requests)."""
    inference, defaults = state.inference, state.defaults
    if lost := describe_missing_pin(inference, state.stored):
        return Problem("RevisionNotKept", lost), None
    if state.platform.problem:
        return state.platform.problem, None
    if beyond := first_limit_violation(inference.spec, state.platform):
        return beyond, None
    whole = fill_class_defaults(inference, state.platform)
    if found := first_violation(whole.inference, defaults) or check_groups_served(inference, state.observed):
        return _add_start_time(found, state.before, state.deadlines), None
    given = AppliedClassDefaults(state.platform.name, whole.values) if state.platform.name else None
    desired = desired_revision(inference, state.stored, defaults, whole.inference, given)
    if desired.name in {revision.name for revision in state.stored}:
        found = state.forbidden.get(desired.name)
    else:
        # Check estimates only before the revision exists. After that, its pods report measured values.
        found = policy.find_violation(desired) or check_published_access(whole.inference.spec)
        found = found or plugin_violation(inference) or check_plan_gaps(inference) or estimated_violation(inference)
    return (found, None) if found else (None, desired)
