"""One reconcile, as a function: what was observed goes in, everything that is to be done comes out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Decision, SetGate
from gaudi_operator.core.admission.checks import (
    anybody_may_ask,
    first_violation,
    groups_are_not_served,
    revision_is_not_allowed,
)
from gaudi_operator.core.admission.plugin import plugin_violation
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.review import estimated_violation, plan_has_gaps
from gaudi_operator.core.admission.spec_limits import why_not_allowed
from gaudi_operator.core.answers import AT_ONCE, Answers, Unanswered
from gaudi_operator.core.children.desired import changes_what_is_there, child_actions
from gaudi_operator.core.classes import Platform, filled, platform_of
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import pods_with_gates
from gaudi_operator.core.gate.judgement import judge_gates
from gaudi_operator.core.observed import InstallationDefaults, Manifest, Observed
from gaudi_operator.core.pods.terminations import terminations
from gaudi_operator.core.pods.view import PodView, read_pods
from gaudi_operator.core.problems.mending import MENDED_BY_OTHERS, refused_since
from gaudi_operator.core.resource import Inference, SpecUnreadable, read_identity, read_inference, read_status
from gaudi_operator.core.rollout.backoff import attempts
from gaudi_operator.core.rollout.controller_revision import stored_revisions
from gaudi_operator.core.rollout.planner import Policy, rollout_policy
from gaudi_operator.core.rollout.replicas import scale, wanted_pods, with_workloads
from gaudi_operator.core.rollout.revision import (
    FromClass,
    Revision,
    desired_revision,
    why_not_kept,
    with_kept_mode,
)
from gaudi_operator.core.rollout.rollout import roll_out
from gaudi_operator.core.rollout.scale_down import still_to_go
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_operator.core.status.events import events
from gaudi_operator.core.status.plan import plan_state
from gaudi_operator.core.status.status import all_heard, make_status, throttled, unreadable_status
from gaudi_operator.core.texts import with_texts
from gaudi_runtime.errors import Problem

FOLLOW_UP_SECONDS = 0.1
"""After which the next reconcile follows a change of ours: our own writes do not cause one, and if no pod comes or goes
by them nothing else does.
"""


def decide(
    observed: Observed,
    defaults: InstallationDefaults,
    answers: Answers = AT_ONCE,
    read: Callable[[Manifest, Answers], Inference] = read_inference,
) -> Decision:
    """The actions, the status and the events of one reconcile. What it needs to know of plans, `answers` say; `read`
    reads the resource, and may know it from the reconcile before.

    In this order: gates by what pods report, admission of the spec, the next step of the rollout, children, status.
    """
    judged = _judge(observed, defaults, answers, read)
    if isinstance(judged, Decision):
        return judged
    try:
        return _decide_by_plan(judged, observed, defaults)
    except Unanswered as error:
        return replace(_gates_alone(judged), question=error.question)


@dataclass(frozen=True)
class Judged:
    """The gates to be written, and what they were judged by. `pods` are as they will be once the gates are written."""

    inference: Inference
    platform: Platform
    before: GaudiInferenceStatus
    deadlines: Deadlines
    promised: Policy
    gates: Sequence[SetGate]
    pods: tuple[PodView, ...]


def _judge(
    observed: Observed,
    defaults: InstallationDefaults,
    answers: Answers,
    read: Callable[[Manifest, Answers], Inference],
) -> Judged | Decision:
    """The decision itself where there is nothing to judge."""
    before, deadlines = read_status(observed.resource), Deadlines(observed.now)
    if read_identity(observed.resource).deleting:
        return Decision((), before)  # the garbage collector of the cluster takes the children
    try:
        inference = read(with_texts(observed.resource, observed.texts), answers)
    except SpecUnreadable as error:
        status = unreadable_status(observed, before, str(error))
        return Decision((), status, events(before, status, ()))

    platform = platform_of(inference, observed, defaults)
    if platform.elsewhere:
        return Decision((), before)  # two installations share the cluster, and the other one serves this
    promised = rollout_policy(inference.spec.rollout, inference.spec.replicas)
    pods = read_pods(observed)
    to_go = still_to_go(pods, wanted_pods(observed))
    gates = judge_gates(pods, inference.spec.readiness, promised.floor, deadlines, to_go)
    pods = pods_with_gates(pods, gates, observed.now)
    return Judged(inference, platform, before, deadlines, promised, gates, pods)


def _gates_alone(judged: Judged) -> Decision:
    """Return the gates and their events while the rest waits for an answer or for its turn."""
    shown = events(judged.before, judged.before, judged.gates, *_shown(judged))
    return Decision(tuple(judged.gates), judged.before, shown, judged.deadlines.requeue_after)


def _shown(judged: Judged) -> tuple[tuple[PodView, ...], int]:
    """Return the pods of the revision in the status, and how many are desired; none where the spec is newer."""
    before = judged.before
    if before.observed_generation != judged.inference.identity.generation:
        return (), 0
    updated = (pod for pod in judged.pods if pod.active and pod.revision == before.revision.current)
    return tuple(updated), judged.promised.desired


def _decide_by_plan(judged: Judged, observed: Observed, defaults: InstallationDefaults) -> Decision:
    """Decide the rest, which depends on the plan of the spec."""
    before, deadlines = judged.before, judged.deadlines
    state, policy = _state(judged, observed, defaults)
    violation, desired = _admit(state, policy)
    state = roll_out(replace(state, violation=violation), desired)
    scaling = scale(state)
    plan = plan_state(state) if state.inference.spec.autoscaling else None
    children = child_actions(state, scaling, plan)
    if any(changes_what_is_there(each, observed) for each in children):
        deadlines.requeue(FOLLOW_UP_SECONDS)
    actions: list[Action] = [*judged.gates, *scaling.costs, *children]
    fresh = make_status(state)
    status, held = throttled(before, fresh, observed, deadlines, heard=all_heard(state))
    return Decision(
        tuple(actions),
        status,
        events(before, status, actions, state.updated, state.desired),
        deadlines.requeue_after,
        status_held=held,
    )


def _state(judged: Judged, observed: Observed, defaults: InstallationDefaults) -> tuple[State, PodPolicy]:
    """Return what is known before anything is planned, and what pods this installation and the class allow."""
    before, pods, identity = judged.before, judged.pods, judged.inference.identity
    platform = replace(judged.platform, problem=_since(judged.platform.problem, before, judged.deadlines))
    found, stored = terminations(pods, before, observed.reports), stored_revisions(observed.revisions)
    policy = PodPolicy(identity.namespace, defaults.allow_host_path, platform, identity.name, judged.inference.spec)
    state = State(
        inference=with_kept_mode(judged.inference, stored),
        before=before,
        observed=observed,
        defaults=defaults,
        deadlines=judged.deadlines,
        pods=pods,
        stored=stored,
        terminations=found,
        attempts=attempts(pods, before, found),
        forbidden=_forbidden((*stored, *with_workloads(stored, observed)), policy, defaults),
        rollout=RolloutState(judged.promised),
        platform=platform,
    )
    return state, policy


def _since(found: Problem | None, before: GaudiInferenceStatus, deadlines: Deadlines) -> Problem | None:
    """With the moment since when others could have mended it, where they can."""
    if found is None or found.reason not in MENDED_BY_OTHERS:
        return found
    return replace(found, since=refused_since(found.reason, before.conditions) or deadlines.now)


def _forbidden(revisions: Iterable[Revision], policy: PodPolicy, defaults: InstallationDefaults) -> dict[str, Problem]:
    """The revisions that this installation allows no more pods of, whatever it allowed when they were made."""
    judged = ((each.name, revision_is_not_allowed(each, policy, defaults)) for each in revisions)
    return {name: violation for name, violation in judged if violation}


def _admit(state: State, policy: PodPolicy) -> tuple[Problem | None, Revision | None]:
    """What is wrong with the spec, or the revision that it asks for: nothing is chosen for a refused one."""
    inference, defaults = state.inference, state.defaults
    if lost := why_not_kept(inference, state.stored):
        return Problem("RevisionNotKept", lost), None
    if state.platform.problem:
        return state.platform.problem, None
    if beyond := why_not_allowed(inference.spec, state.platform):
        return beyond, None
    whole = filled(inference, state.platform)
    if found := first_violation(whole.inference, defaults) or groups_are_not_served(inference, state.observed):
        return _since(found, state.before, state.deadlines), None
    given = FromClass(state.platform.name, whole.values) if state.platform.name else None
    desired = desired_revision(inference, state.stored, defaults, whole.inference, given)
    if desired.name in {revision.name for revision in state.stored}:
        found = state.forbidden.get(desired.name)
    else:
        # These count until a revision exists: from then on its pods say what is so.
        found = policy.why_not(desired) or anybody_may_ask(whole.inference.spec)
        found = found or plugin_violation(inference) or plan_has_gaps(inference) or estimated_violation(inference)
    return (found, None) if found else (None, desired)
