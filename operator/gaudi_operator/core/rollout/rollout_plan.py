"""The rollout in one reconcile: the revision to run, room for its pods, the next step, and the worst problem.

If new pods do not fit next to the old pods, the rollout replaces pods in place (docs/how-to/revisions.md, Clusters
without a free card). Only the scheduler and quotas decide whether there is room. The ReplicaSet of the new revision
stores the reason for replacement in place until the rollout is complete. A later leader can therefore continue the
replacement.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from gaudi_operator.api.v1alpha1.rollout import Rollout, RolloutType
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.inference import InferenceIdentity
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.start_delays import why_creation_is_delayed, why_scheduling_is_delayed
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.pod_problems import failed_pods_problem, worst_pod_problem
from gaudi_operator.core.problems.resolution import worst_unresolved_problem
from gaudi_operator.core.rollout.backoff import add_back_off_to_problem
from gaudi_operator.core.rollout.revision import Revision, renumber_as_newest_revision
from gaudi_operator.core.rollout.revision_choice import (
    choose_last_good_revision,
    choose_revision,
    is_chosen_revision_on_trial,
)
from gaudi_operator.core.rollout.rollout_step import (
    RolloutStep,
    RolloutStepLimits,
    RolloutStepProgress,
    next_rollout_step,
    resolve_rollout_step_limit,
    rollout_step_limits,
)
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_operator.core.rollout.workload_replicas import (
    count_ending_workload_pods,
    count_workload_pods,
    describe_excess_replicas,
    full_replicas,
    limit_replicas,
    live_workloads,
)
from gaudi_runtime.errors import Problem

_MAX_TEXT = 600


def why_rollout_replaces_in_place(
    rollout: Rollout,
    replicas: int,
    replica_set: Manifest | None,
    pods: Sequence[PodView],
    deadlines: Deadlines,
    *,
    waits: bool = False,
) -> str | None:
    """Return why pods are replaced in place although the spec permits a surge, or None while the rollout surges.

    `replica_set` and `pods` belong to the new revision. `waits` is True while other pods are terminating or the rollout
    is paused: the rollout then does not begin to replace pods in place. If replacement in place is not permitted, the
    new pod waits for room, and explain_blocked_rollout() describes the options.
    """
    if not can_rollout_replace_in_place(rollout, replicas):
        return None
    # Never change a stored answer. Otherwise the rollout would alternate between replacing pods in place and waiting
    # for room.
    if stored_reason := _stored_in_place_reason(replica_set):
        return stored_reason
    if waits:
        return None
    seconds = rollout.surge_timeout_seconds
    for pod in pods:
        if pod.is_active and (reason := why_scheduling_is_delayed(pod, seconds, deadlines)):
            return f"Pod {pod.name} had no room next to the old pods for {seconds} s: {reason}"[:_MAX_TEXT]
    if replica_set and (reason := why_creation_is_delayed(replica_set, seconds, deadlines)):
        return f"No new pod could be created next to the old pods for {seconds} s: {reason}"[:_MAX_TEXT]
    return None


def _stored_in_place_reason(replica_set: Manifest | None) -> str | None:
    """Return the stored reason for replacement in place, or None if the rollout may surge.

    The reason is stored if there is no room for new pods next to the old pods.
    """
    annotations = (replica_set or {}).get("metadata", {}).get("annotations") or {}
    return annotations.get(IN_PLACE_ANNOTATION) or None


def can_rollout_replace_in_place(rollout: Rollout, replicas: int) -> bool:
    """Return True if a rollout with a surge may replace pods in place when the surge has no room."""
    return rollout.type is RolloutType.SURGE_THEN_IN_PLACE and _may_miss_a_replica(rollout, replicas)


def _may_miss_a_replica(rollout: Rollout, replicas: int) -> bool:
    if rollout.max_unavailable is None:
        # Replacing a single replica in place makes the model unavailable for a whole warm-up. Therefore users must
        # request it explicitly.
        return replicas > 1
    return resolve_rollout_step_limit(rollout.max_unavailable, replicas, round_up=False) > 0


def explain_blocked_rollout(rollout: Rollout, replicas: int, owner: InferenceIdentity) -> str:
    """Return sentences that explain why an upgrade waits for room next to the old pods, and how to unblock it."""
    change: dict[str, str | int | None] = {"type": RolloutType.SURGE_THEN_IN_PLACE}
    if not _may_miss_a_replica(rollout, replicas):
        change["maxUnavailable"] = None if replicas > 1 else 1
    patch = json.dumps({"spec": {"rollout": change}}, separators=(",", ":"))
    command = f"`kubectl patch gi {owner.name} -n {owner.namespace} --type merge -p '{patch}'`."
    cause = _why_rollout_waits(rollout, replicas)
    if replicas > 1:
        return (
            f"The old pods stay, because {cause}. Free or add cards. To replace pods in place instead, with one "
            f"replica missing meanwhile, run: {command}"
        )
    return (
        f"The old pod stays, because {cause}. Replacing it in place stops traffic until the new pod is warm. Free or "
        f"add cards. To accept the outage, run: {command}"
    )


def _why_rollout_waits(rollout: Rollout, replicas: int) -> str:
    """Return the clause that explains why a rollout without room waits."""
    if rollout.type is RolloutType.SURGE:
        return "spec.rollout.type is Surge"
    match rollout.max_unavailable:
        case None:
            return "it is the only replica"
        case 0 | "0%" as zero:
            return f"spec.rollout.maxUnavailable is {zero}"
        case share:
            return f"spec.rollout.maxUnavailable is {share}, which is 0 of {replicas} replicas"


def plan_rollout(state: State, desired: Revision | None) -> State:
    """Plan the rollout in one reconcile. Return `state` with the rollout, its problem and the replicas within limits.

    `desired` is the revision that the spec requests. If the spec was refused, `desired` is None and the last revision
    keeps running.
    """
    # The rollout step is not known yet. Until then, only terminating pods count as room for new pods.
    choice = choose_revision(state, desired, RoomCriterion(_has_terminating_pods(state))) if desired else None
    current = renumber_as_newest_revision(choice.current, state.stored) if choice else next(iter(state.stored), None)
    frozen = state.violation is not None or (choice is not None and choice.on_hold)
    excess = None
    if current:
        limits = state.platform.enforced_limits
        excess = describe_excess_replicas(state.inference, limits, current)
        state = replace(state, inference=limit_replicas(state.inference, limits, current, state.observed))
    in_place_reason = _in_place_reason(state, current.name, frozen=frozen) if current else None
    policy = _policy(state, current, in_place_reason, frozen=frozen)
    rollout = RolloutState(policy, choice, current, _next_step(state, current, policy), in_place_reason, excess)
    state = replace(state, rollout=rollout)
    return replace(state, problem=_worst_rollout_problem(state))


def _worst_rollout_problem(state: State) -> Problem | None:
    """Return the worst problem that a user or another component must resolve.

    A rollback is reported as soon as no pod of the failed revision is desired. Lost pods and a scale-up do not change
    this.
    """
    rollout = state.rollout
    choice_problem = rollout.choice.problem if rollout.choice else None
    # Pods of a paused revision fail for a known reason. Report this reason, because a pod problem would not explain why
    # the rollout waits.
    if choice_problem and rollout.choice and rollout.choice.on_hold:
        return choice_problem
    name = state.current_name or ""
    names, replicas = [name], state.updated_pods
    # A paused rollout replaces no pods, so the pods of older revisions are replicas too.
    if _is_paused(state):
        names, replicas = [name, *_desired_old_revisions(state, name)], state.active_pods
    problems = [_revision_problem(state, each, replicas) for each in names]
    if not _desired_old_revisions(state, name):
        problems.append(choice_problem)
    return worst_unresolved_problem(problem for problem in problems if problem)


def _is_paused(state: State) -> bool:
    """Return True if the rollout is paused and pods of older revisions are still desired."""
    step = state.rollout.step
    return step is not None and step.progress is RolloutStepProgress.PAUSED


def _revision_problem(state: State, name: str, replicas: Sequence[PodView]) -> Problem | None:
    """Return the worst problem of a revision. `replicas` are all pods that count towards the desired number."""
    pods, workload = state.active_pods_of(name), live_workloads(state.observed).get(name)
    criteria = state.problem_criteria(name, _expected_room(state))
    problem = worst_pod_problem(pods, [workload] if workload else [], criteria)
    repeated = _repeated_failure_problem(state, name, replicas)
    problem = worst_unresolved_problem(candidate for candidate in (problem, repeated) if candidate)
    desired = state.desired_replicas - (len(replicas) - len(pods))
    problem = add_back_off_to_problem(problem, state.failures.get(name), len(pods), desired, state.deadlines)
    if name in state.forbidden and len(pods) < desired:
        problem = worst_unresolved_problem(candidate for candidate in (problem, state.forbidden[name]) if candidate)
    return problem


def _repeated_failure_problem(state: State, revision: str, replicas: Sequence[PodView]) -> Problem | None:
    if sum(pod.is_ready for pod in replicas) >= state.desired_replicas:
        return None  # enough pods are ready, for example after a scale-down, so failed pods do not matter
    # Failed pods may still exist long after the operator has replaced them.
    problem = failed_pods_problem(state.pods, revision)
    running_count = sum(pod.container is not None and pod.container.running for pod in replicas)
    # If every replica has a running container, no user needs to act, even if the warm-up takes long. The problem
    # therefore starts now.
    all_running = problem is not None and running_count >= state.desired_replicas
    return replace(problem, since=state.deadlines.now) if problem and all_running else problem


def _has_terminating_pods(state: State) -> bool:
    return any(pod.terminating for pod in state.pods)


def _expected_room(state: State) -> RoomCriterion:
    """Return the room that new pods can expect, including the room that the rollout step frees."""
    rollout, policy, spec = state.rollout, state.rollout.policy, state.inference.spec
    # The step will free room. If the operator reported the pod as unschedulable now, the next reconcile would withdraw
    # the report.
    frees_room = rollout.in_place_reason is not None and rollout.step is not None and bool(rollout.step.changes)
    keeps_old_pods = policy.max_surge > 0 and (policy.trial or policy.max_unavailable == 0)
    # A paused rollout makes no room, so its pods need room like those of a complete rollout.
    old_revisions = _desired_old_revisions(state, state.current_name) if state.current_name else []
    upgrading = bool(old_revisions) and not _is_paused(state)
    # The scheduler may still find a node. After the surge timeout, the operator removes old pods to make room.
    may_replace = (
        upgrading and rollout.in_place_reason is None and can_rollout_replace_in_place(spec.rollout, spec.replicas)
    )
    is_blocked = keeps_old_pods and upgrading and not may_replace
    return RoomCriterion(
        to_come=_has_terminating_pods(state) or frees_room,
        remedy=explain_blocked_rollout(spec.rollout, spec.replicas, state.inference.identity) if is_blocked else None,
        in_place_after=spec.rollout.surge_timeout_seconds if may_replace else None,
    )


def _desired_old_revisions(state: State, current: str) -> list[str]:
    """Return the names of the revisions other than `current` whose pods are still desired."""
    workloads = live_workloads(state.observed)
    return [revision for revision, workload in workloads.items() if revision != current and full_replicas(workload)]


def _in_place_reason(state: State, current: str, *, frozen: bool) -> str | None:
    spec, workload = state.inference.spec, live_workloads(state.observed).get(current)
    if not _desired_old_revisions(state, current):
        # All old pods are already scaled down, but a new pod is not ready yet. Keep the answer until the last new pod
        # is ready.
        lacks_pods = sum(pod.is_ready for pod in state.active_pods_of(current)) < spec.replicas
        stable = state.previous_status.revision.stable
        keeps_reason = lacks_pods and current != stable and can_rollout_replace_in_place(spec.rollout, spec.replicas)
        return _stored_in_place_reason(workload) if keeps_reason else None
    # A paused rollout replaces no pods, so it must not lower the number of available pods.
    waits = spec.rollout.paused or frozen or count_ending_workload_pods(state.pods, state.observed, state.deadlines) > 0
    pods = state.active_pods_of(current)
    return why_rollout_replaces_in_place(spec.rollout, spec.replicas, workload, pods, state.deadlines, waits=waits)


def _policy(state: State, current: Revision | None, in_place_reason: str | None, *, frozen: bool) -> RolloutStepLimits:
    spec, stable = state.inference.spec, state.previous_status.revision.stable
    observe_seconds = state.observe_seconds(current.name) if current else 0
    trial = current is not None and is_chosen_revision_on_trial(
        current.name, stable, state.pods, observe_seconds, state.deadlines
    )
    return rollout_step_limits(
        spec.rollout, spec.replicas, frozen=frozen, in_place=in_place_reason is not None, trial=trial
    )


def _next_step(state: State, current: Revision | None, policy: RolloutStepLimits) -> RolloutStep | None:
    if current is None:
        return None
    failed_name = current.name if current.failure else None
    fallback = choose_last_good_revision(failed_name, state.stored, state.previous_status, state.pods, state.forbidden)
    counts, old_counts = count_workload_pods(
        current, state.stored, state.observed, state.pods, state.forbidden, fallback
    )
    return next_rollout_step(
        counts, old_counts, policy, count_ending_workload_pods(state.pods, state.observed, state.deadlines)
    )
