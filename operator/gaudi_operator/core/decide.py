"""One pass, as a function: what was observed goes in, everything that is to be done comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Plan, SetCost
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
from gaudi_operator.core.rollout.backoff import held, next_try_seconds, records
from gaudi_operator.core.rollout.planner import rollout_policy
from gaudi_operator.core.rollout.replicas import replicas_after, running_revisions, with_workloads, written_replicas
from gaudi_operator.core.rollout.revision import Revision, desired_revision, stored_revisions, why_not_kept
from gaudi_operator.core.rollout.scale_down import SEEN_SECONDS, deletion_costs, held_back
from gaudi_operator.core.rollout.state import Course, World, problem, set_course
from gaudi_operator.core.status.conditions import learning_seconds
from gaudi_operator.core.status.events import events
from gaudi_operator.core.status.situation import Situation
from gaudi_operator.core.status.status import make_status, throttled, unreadable_status
from gaudi_runtime.errors import Problem


def decide(observed: Observed, defaults: InstallationDefaults) -> Plan:
    """The actions, the status and the events of one pass.

    In this order: gates by what pods report, admission of the spec, the next step of the rollout, children, status.
    """
    before = read_status(observed.resource)
    if read_identity(observed.resource).deleting:
        return Plan((), before)
    try:
        inference = read_inference(observed.resource)
    except SpecUnreadable as error:
        status = unreadable_status(observed, before, str(error))
        return Plan((), status, events(before, status, ()))
    seen = read_pods(observed)
    gates = judge_gates(seen, inference.spec.readiness, _promised(inference.spec), observed.now)
    world = _world(inference, before, observed, with_gates(seen, gates, observed.now), defaults)
    violation, desired = _admit(world)
    course = set_course(world, desired, refused=violation is not None)
    scaled = _scaled(world, course)
    # Gates come first: a pod that has warmed up waits for nothing else.
    actions: list[Action] = [*gates, *scaled.costs, *_children(world, course, scaled)]
    fresh = make_status(_situation(world, course, violation))
    status, wait = throttled(before, fresh, observed.status_written, observed.now)
    again = _look_again(world, course, scaled, wait)
    ask = asks_first(world.pods, again, observed.now, inference.spec.readiness.stall_timeout_seconds)
    return Plan(tuple(actions), status, events(before, status, actions), again, ask)


@dataclass(frozen=True)
class _Scaled:
    """Replicas by revision: `desired` after the step, and `replicas` to write now, fewer while a revision backs off.

    `costs` say first which pods are to go.
    """

    costs: Sequence[SetCost] = ()
    desired: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)


def _promised(spec: GaudiInferenceSpec) -> int:
    """Pods that stay available, however many requests wait for compiles in others."""
    return rollout_policy(spec.rollout, spec.replicas).floor


def _world(
    inference: Inference,
    before: GaudiInferenceStatus,
    observed: Observed,
    pods: Sequence[PodView],
    defaults: InstallationDefaults,
) -> World:
    """All that the rest of the pass goes by: `pods` as they are once their gates are written."""
    errors = last_errors(pods, before, observed.reports)
    stored = stored_revisions(observed.revisions)
    return World(
        inference=inference,
        before=before,
        observed=observed,
        defaults=defaults,
        pods=pods,
        stored=stored,
        last_errors=errors,
        ends=records(pods, before, errors),
        forbidden=_forbidden(stored, observed, defaults),
    )


def _forbidden(stored: Sequence[Revision], observed: Observed, defaults: InstallationDefaults) -> dict[str, Problem]:
    """The revisions that this installation allows no more pods of, whatever it allowed when they were made."""
    judged = (
        (each.name, revision_is_not_allowed(each, defaults)) for each in (*stored, *with_workloads(stored, observed))
    )
    return {name: violation for name, violation in judged if violation}


def _admit(world: World) -> tuple[Problem | None, Revision | None]:
    """What is wrong with the spec, or the revision that it asks for: nothing is chosen for a refused one."""
    inference, defaults = world.inference, world.defaults
    if lost := why_not_kept(inference, world.stored):
        return Problem("RevisionNotKept", lost), None
    if found := first_violation(inference, defaults) or groups_are_not_served(inference, world.observed):
        return found, None
    desired = desired_revision(inference, world.stored, defaults)
    if desired.name in {revision.name for revision in world.stored}:
        found = revision_is_not_allowed(desired, defaults)
    else:
        # Estimates count until a revision exists: from then on its pods say what is so.
        found = estimated_violation(inference)
    return (found, None) if found else (None, desired)


def _scaled(world: World, course: Course) -> _Scaled:
    if course.current is None or course.step is None:
        return _Scaled()
    after = replicas_after(course.current, world.observed, course.step)
    costs = deletion_costs(world.pods, after)
    desired = held_back(after, written_replicas(world.observed), costs)
    return _Scaled(costs, desired, held(desired, world.pods, world.ends, world.observed.now))


def _children(world: World, course: Course, scaled: _Scaled) -> list[Action]:
    """What is to be written or deleted of them; nothing while no revision was ever to run."""
    inference, observed = world.inference, world.observed
    if course.current is None or course.step is None:
        return []
    limit, stable = inference.spec.rollout.revision_history_limit, world.before.revision.stable
    deletes, in_use = garbage(observed, course.current.name, world.stored, limit, stable)
    running = running_revisions(course.current, world.stored, observed, in_use)
    desired = desired_children(
        inference,
        course.remembered,
        running,
        scaled.replicas,
        course.policy,
        world.defaults,
        {course.current.name: course.in_place} if course.in_place else {},
        _kept(world, course, scaled),
    )
    readers = recipe_readers(inference, running, _revisions(world, course))
    needed = {*(each.config_map for each in running), *(each["metadata"]["name"] for each in readers)}
    return [
        *missing_writes([*readers, *desired], _children_of(observed)),
        *deletes,
        *unread_config_maps(observed, needed),
        *recipe_claims(inference, running, observed.claims),
        *_switched_off(inference.spec, observed),
    ]


def _kept(world: World, course: Course, scaled: _Scaled) -> dict[str, int]:
    """What older revisions have again after a back-off: the rollout gives more pods to the current one alone."""
    dropped = {course.name, *(each.name for each in _revisions(world, course) if each.failure)}
    lowered = (name for name, count in scaled.replicas.items() if count < scaled.desired[name])
    return {name: scaled.desired[name] for name in lowered if name not in dropped}


def _switched_off(spec: GaudiInferenceSpec, observed: Observed) -> list[Action]:
    policies = () if spec.network_access.enabled else observed.network_policies
    autoscalers = () if spec.autoscaling else observed.autoscalers
    return [
        *(delete(each, "spec.networkAccess is switched off") for each in policies),
        *(delete(each, "spec.autoscaling is left out") for each in autoscalers),
    ]


def _situation(world: World, course: Course, violation: Problem | None) -> Situation:
    return Situation(
        inference=world.inference,
        before=world.before,
        violation=violation,
        current=course.name,
        previous=_previous(world, course),
        stable=course.name if course.is_over else world.before.revision.stable,
        revisions=_revisions(world, course),
        policy=course.policy,
        step=course.step,
        pods=tuple(world.pods),
        choice=course.choice,
        in_place=course.in_place,
        last_errors=world.last_errors,
        problem=problem(world, course),
        outlook=outlook(world.inference),
        ends=world.ends,
        now=world.observed.now,
        autoscaler=next(iter(world.observed.autoscalers), None),
    )


def _revisions(world: World, course: Course) -> tuple[Revision, ...]:
    """All kept ones, with what has become of some in this pass."""
    fresh = {revision.name: revision for revision in course.remembered}
    return tuple({**{revision.name: revision for revision in world.stored}, **fresh}.values())


def _previous(world: World, course: Course) -> str | None:
    """The newest older revision that has pods, otherwise the one that was desired before the current one."""
    current = course.name
    with_pods = {pod.revision for pod in world.pods if pod.active}
    for revision in world.stored:
        if revision.name != current and revision.name in with_pods:
            return revision.name
    written = world.before.revision
    return written.current if written.current not in (None, current) else written.previous


def _look_again(world: World, course: Course, scaled: _Scaled, wait: float | None) -> float | None:
    """Seconds until the next pass although nothing changes; `wait` is that of a status that was written just now."""
    spec, observed = world.inference.spec, world.observed
    waits = (
        wait,
        SEEN_SECONDS if scaled.costs else None,
        next_try_seconds(world.ends.values(), observed.now),
        learning_seconds(next(iter(observed.autoscalers), None), observed.now),
    )
    return look_again_seconds(
        world.pods,
        min(filter(None, waits), default=None),
        observed.now,
        observe_seconds=spec.rollout.canary.observe_seconds if course.policy.trial else 0,
        stall_seconds=spec.readiness.stall_timeout_seconds,
        workloads=observed.workloads,
    )


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
