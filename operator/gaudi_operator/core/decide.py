"""One reconcile as a pure function: the observed state determines the actions, the status and the events."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Decision, SetGate, action_changes_live_objects
from gaudi_operator.core.admission.engine_settings import check_slicing_settings, engine_policy_check
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.spec_checks import (
    check_groups_served,
    check_published_access,
    check_revision_allowed,
    first_spec_violation,
)
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck, BucketPolicyCheckPending, FindResult
from gaudi_operator.core.children.child_actions import child_actions, limited_children
from gaudi_operator.core.classes import ResolvedClass, fill_class_defaults, resolve_class
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import pods_with_gate_conditions
from gaudi_operator.core.gate.judgement import judge_gates
from gaudi_operator.core.inference import Inference, read_inference_sections, read_inference_status
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.pod_view import PodView, read_pod_views
from gaudi_operator.core.pods.terminations import terminations_by_pod
from gaudi_operator.core.problems.resolution import RESOLVED_BY_OTHERS, spec_refused_since
from gaudi_operator.core.rollout.backoff import back_off_records
from gaudi_operator.core.rollout.controller_revision import read_controller_revisions
from gaudi_operator.core.rollout.revision import Revision, RevisionClassDefaults
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision, use_mode_of_chosen_revision
from gaudi_operator.core.rollout.rollout_plan import plan_rollout
from gaudi_operator.core.rollout.rollout_step import RolloutStepLimits, rollout_step_limits
from gaudi_operator.core.rollout.scale_down import count_scale_down_removals
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_operator.core.rollout.workload_replicas import (
    limit_replicas,
    plan_replicas,
    revisions_with_workloads,
    spec_replicas_by_revision,
)
from gaudi_operator.core.status.events import status_events
from gaudi_operator.core.status.status_builder import build_status, is_status_complete, throttle_status
from gaudi_operator.core.status.warmup_figures import warmup_plan_state
from gaudi_runtime.errors import Problem

FOLLOW_UP_SECONDS = 0.1
"""Seconds until the next reconcile after a write of children.

The operator's own writes trigger no reconcile, unless they create or remove pods.
"""


def decide(
    observed: Observed,
    defaults: InstallationDefaults,
    find_result: FindResult = BucketPolicyCheck.run,
    read: Callable[[Manifest], Inference] = read_inference_sections,
) -> Decision:
    """Decide the actions, the status and the events of one reconcile.

    The order is: gates by pod reports, admission of the spec, the next rollout step, children, status. `find_result`
    returns the result of the check of a policy. `read` parses the resource and may return a cached value.
    """
    inference = read(observed.resource)
    platform = resolve_class(inference, observed, defaults)
    # The garbage collector of the cluster deletes the children of a deleted resource.
    if inference.identity.deleting or platform.served_elsewhere:
        return Decision((), read_inference_status(observed.resource), writes_status=False)
    judged = _decide_gates(inference, platform, observed)
    try:
        return _decide_after_gates(judged, observed, defaults, find_result)
    except BucketPolicyCheckPending as error:
        return replace(_gate_only_decision(judged), pending_check=error.check)


@dataclass(frozen=True)
class _JudgedGates:
    """The gate writes, which a reconcile decides first, and the inputs of this decision.

    `pods` have the state that they will have after the gate writes. `stored` contains the revisions, newest first.
    """

    inference: Inference
    platform: ResolvedClass
    previous_status: GaudiInferenceStatus
    deadlines: Deadlines
    rollout_policy: RolloutStepLimits
    gates: Sequence[SetGate]
    pods: tuple[PodView, ...]
    stored: tuple[Revision, ...]


def _decide_gates(inference: Inference, platform: ResolvedClass, observed: Observed) -> _JudgedGates:
    """Judge the gates. Of the spec, the judgement reads only `readiness`, `replicas` and `rollout`."""
    previous_status, deadlines = read_inference_status(observed.resource), Deadlines(observed.now)
    stored = read_controller_revisions(observed.revisions)
    running = next((each for each in stored if each.name == previous_status.revision.current), None)
    limited = limit_replicas(inference, platform.enforced_limits, running, observed) if running else inference
    policy = rollout_step_limits(inference.spec.rollout, limited.spec.replicas)
    pods = read_pod_views(observed)
    pending_removals = count_scale_down_removals(pods, spec_replicas_by_revision(observed))
    gates = judge_gates(
        *(pods, inference.spec.readiness, policy.min_available_pods, deadlines, pending_removals),
        spec_is_readable=inference.unreadable is None,
    )
    pods = pods_with_gate_conditions(pods, gates, observed.now)
    return _JudgedGates(inference, platform, previous_status, deadlines, policy, gates, pods, stored)


def _gate_only_decision(judged: _JudgedGates) -> Decision:
    """Return a decision with only the gate writes and their events, because the policy is not checked yet."""
    events = status_events(judged.previous_status, judged.previous_status, judged.gates, *_pods_in_status(judged))
    return Decision(tuple(judged.gates), judged.previous_status, events, judged.deadlines.requeue_after)


def _pods_in_status(judged: _JudgedGates) -> tuple[tuple[PodView, ...], int]:
    """Return (pods of the revision in the status, desired number), or ((), 0) if the spec is newer than the status."""
    previous_status = judged.previous_status
    if previous_status.observed_generation != judged.inference.identity.generation:
        return (), 0
    updated_pods = (pod for pod in judged.pods if pod.is_active and pod.revision == previous_status.revision.current)
    return tuple(updated_pods), judged.rollout_policy.replicas


def _decide_after_gates(
    judged: _JudgedGates, observed: Observed, defaults: InstallationDefaults, find_result: FindResult
) -> Decision:
    """Decide everything but the gates. Raises BucketPolicyCheckPending."""
    previous_status, deadlines = judged.previous_status, judged.deadlines
    state, pod_policy = _build_state(judged, observed, defaults)
    violation, desired = _admit_spec(state, pod_policy, find_result)
    state = plan_rollout(replace(state, violation=violation), desired)
    state = replace(state, plan=warmup_plan_state(state))
    # Only a readable spec defines children and their replicas.
    changes = [] if state.inference.unreadable else _plan_changes(state)
    if any(action_changes_live_objects(change, observed) for change in changes):
        deadlines.schedule_requeue(FOLLOW_UP_SECONDS)
    actions: list[Action] = [*judged.gates, *changes]
    new_status = build_status(state)
    status, held_since = throttle_status(
        previous_status, new_status, observed, deadlines, all_reported=is_status_complete(state)
    )
    return Decision(
        tuple(actions),
        status,
        status_events(previous_status, status, actions, state.updated_pods, state.desired_replicas),
        deadlines.requeue_after,
        status_held_since=held_since,
    )


def _plan_changes(state: State) -> list[Action]:
    """Return all actions except gate writes."""
    scaling = plan_replicas(state)
    return [*scaling.costs, *child_actions(state, scaling)]


def _build_state(judged: _JudgedGates, observed: Observed, defaults: InstallationDefaults) -> tuple[State, PodPolicy]:
    """Return the state before the rollout is planned, and the pod policy of the installation and the class."""
    previous_status, pods = judged.previous_status, judged.pods
    problem = _add_start_time(judged.platform.problem, previous_status, judged.deadlines)
    platform = replace(judged.platform, problem=problem)
    stored = judged.stored
    terminations = terminations_by_pod(pods, previous_status, observed.reports)
    pod_policy = PodPolicy(judged.inference, defaults.allow_host_path, platform)
    state = State(
        inference=use_mode_of_chosen_revision(judged.inference, stored),
        previous_status=previous_status,
        observed=observed,
        defaults=defaults,
        deadlines=judged.deadlines,
        pods=pods,
        stored=stored,
        terminations=terminations,
        failures=back_off_records(pods, previous_status, terminations, observed.now),
        forbidden=_forbidden_revisions((*stored, *revisions_with_workloads(stored, observed)), pod_policy, defaults),
        rollout=RolloutState(judged.rollout_policy),
        platform=platform,
    )
    return state, pod_policy


def _add_start_time(
    problem: Problem | None, previous_status: GaudiInferenceStatus, deadlines: Deadlines
) -> Problem | None:
    """Return the problem. If other users or controllers can resolve the problem, it has a start time."""
    if problem is None or problem.reason not in RESOLVED_BY_OTHERS:
        return problem
    return replace(problem, since=spec_refused_since(problem.reason, previous_status.conditions) or deadlines.now)


def _forbidden_revisions(
    revisions: Iterable[Revision], pod_policy: PodPolicy, defaults: InstallationDefaults
) -> dict[str, Problem]:
    """Return a problem for each revision whose pods this installation no longer permits, by revision name."""
    violations = ((revision.name, check_revision_allowed(revision, pod_policy, defaults)) for revision in revisions)
    return {name: violation for name, violation in violations if violation}


def _admit_spec(state: State, pod_policy: PodPolicy, find_result: FindResult) -> tuple[Problem | None, Revision | None]:
    """Return (violation of the spec, None) or (None, requested revision). Raises BucketPolicyCheckPending."""
    inference, defaults = state.inference, state.defaults
    if inference.unreadable:
        return inference.unreadable, None
    if state.platform.problem:
        return state.platform.problem, None
    filled = fill_class_defaults(inference, state.platform, defaults)
    if violation := first_spec_violation(filled.inference, defaults) or check_groups_served(inference, state.observed):
        return _add_start_time(violation, state.previous_status, state.deadlines), None
    applied_defaults = RevisionClassDefaults(state.platform.name, filled.values) if state.platform.name else None
    desired = choose_desired_revision(inference, state.stored, filled.defaults, filled.inference, applied_defaults)
    violation = state.forbidden.get(desired.name)
    violation = violation or pod_policy.find_violation(desired, limited_children(inference, defaults))
    if desired.name not in {revision.name for revision in state.stored}:
        violation = violation or check_published_access(filled.inference.spec)
        violation = violation or check_slicing_settings(inference) or find_result(engine_policy_check(inference))
    return (violation, None) if violation else (None, desired)
