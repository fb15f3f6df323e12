"""The rollout in one reconcile: selects the revision to run, plans the next step and finds the worst problem."""

from dataclasses import replace

from gaudi_operator.core.problems.criteria import ExpectedRoom
from gaudi_operator.core.problems.pod_problems import failed_pods_problem, worst_pod_problem
from gaudi_operator.core.problems.resolution import worst_problem
from gaudi_operator.core.rollout.backoff import add_back_off
from gaudi_operator.core.rollout.live_workloads import live_workloads
from gaudi_operator.core.rollout.planner import (
    RolloutPolicy,
    RolloutProgress,
    RolloutStep,
    next_rollout_step,
    rollout_policy,
)
from gaudi_operator.core.rollout.replicas import count_ending_pods, count_pods, full_replicas
from gaudi_operator.core.rollout.revision import Revision, renumber_as_newest
from gaudi_operator.core.rollout.revision_choice import choose_revision, is_on_trial
from gaudi_operator.core.rollout.room import (
    can_replace_in_place,
    explain_blocked_upgrade,
    stored_in_place_reason,
    why_replaced_in_place,
)
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_runtime.errors import Problem


def plan_rollout(state: State, desired: Revision | None) -> State:
    """Plan the rollout in one reconcile. Return `state` with the rollout and its problem.

    `desired` is the revision that the spec requests. If the spec was refused, `desired` is None and the last revision
    keeps running.
    """
    # The rollout step is not known yet. Until then, only terminating pods count as room for new pods.
    choice = choose_revision(state, desired, ExpectedRoom(_has_terminating_pods(state))) if desired else None
    current = renumber_as_newest(choice.current, state.stored) if choice else next(iter(state.stored), None)
    in_place = _in_place_reason(state, current.name) if current else None
    frozen = state.violation is not None or (choice is not None and choice.on_hold)
    policy = _policy(state, current, in_place, frozen=frozen)
    rollout = RolloutState(policy, choice, current, _next_step(state, current, policy), in_place)
    state = replace(state, rollout=rollout)
    return replace(state, problem=_worst_rollout_problem(state))


def _worst_rollout_problem(state: State) -> Problem | None:
    """Return the worst problem that a user or another component must resolve.

    A rollback is reported only after it is complete.
    """
    rollout = state.rollout
    failed = rollout.choice.problem if rollout.choice else None
    # Pods of a paused revision fail for a known reason. Report this reason, because a pod problem would not explain why
    # the rollout waits.
    if failed and rollout.choice and rollout.choice.on_hold:
        return failed
    name, sets = state.current_name or "", live_workloads(state.observed)
    own = worst_pod_problem(
        state.updated_pods, [sets[name]] if name in sets else [], state.problem_criteria(name, _expected_room(state))
    )
    own = worst_problem(each for each in (own, _repeated_failure_problem(state, name)) if each)
    own = add_back_off(own, state.failures.get(name), len(state.updated_pods), state.desired_replicas, state.deadlines)
    if name in state.forbidden and len(state.updated_pods) < state.desired_replicas:
        own = worst_problem(each for each in (own, state.forbidden[name]) if each)
    done = rollout.step is not None and rollout.step.progress is RolloutProgress.DONE
    return own or (failed if done else None)


def _repeated_failure_problem(state: State, revision: str) -> Problem | None:
    if sum(pod.is_ready for pod in state.updated_pods) >= state.desired_replicas:
        return None  # enough pods are ready, for example after a scale-down, so failed pods do not matter
    # Failed pods may still exist long after the operator has replaced them.
    found = failed_pods_problem(state.pods, revision)
    running = sum(pod.container is not None and pod.container.running for pod in state.updated_pods)
    # If every replica has a running container, no user needs to act, even if the warm-up takes long. The problem
    # therefore starts now.
    tries = found is not None and running >= state.desired_replicas
    return replace(found, since=state.deadlines.now) if found and tries else found


def _has_terminating_pods(state: State) -> bool:
    return any(pod.terminating for pod in state.pods)


def _expected_room(state: State) -> ExpectedRoom:
    """Return the room that new pods can expect, including the room that the rollout step frees."""
    rollout, policy, spec = state.rollout, state.rollout.policy, state.inference.spec
    # The step will free room. If the operator reported the pod as unschedulable now, the next reconcile would withdraw
    # the report.
    moving = rollout.in_place is not None and rollout.step is not None and bool(rollout.step.scales)
    stays = policy.max_surge > 0 and (policy.trial or policy.max_unavailable == 0)
    upgrading = state.current_name is not None and _is_upgrading(state, state.current_name)
    # The scheduler may still find a node. After the surge timeout, the operator removes old pods to make room.
    asks = upgrading and rollout.in_place is None and can_replace_in_place(spec.rollout, spec.replicas)
    waits = stays and upgrading and not asks
    return ExpectedRoom(
        to_come=_has_terminating_pods(state) or moving,
        unblock=explain_blocked_upgrade(spec.rollout, spec.replicas, state.inference.identity) if waits else None,
        in_place_after=spec.rollout.surge_timeout_seconds if asks else None,
    )


def _is_upgrading(state: State, current: str) -> bool:
    """Return True if pods of a revision other than `current` are still desired."""
    sets = live_workloads(state.observed)
    return any(full_replicas(each) for revision, each in sets.items() if revision != current)


def _in_place_reason(state: State, current: str) -> str | None:
    spec, workload = state.inference.spec, live_workloads(state.observed).get(current)
    if not _is_upgrading(state, current):
        # All old pods are already scaled down, but a new pod is not ready yet. Keep the answer until the last new pod
        # is ready.
        missing = sum(pod.is_ready for pod in state.active_pods_of(current)) < spec.replicas
        kept = missing and current != state.before.revision.stable and can_replace_in_place(spec.rollout, spec.replicas)
        return stored_in_place_reason(workload) if kept else None
    ending = count_ending_pods(state.pods, state.observed, state.deadlines) > 0
    mine = state.active_pods_of(current)
    return why_replaced_in_place(spec.rollout, spec.replicas, workload, mine, state.deadlines, room_to_come=ending)


def _policy(state: State, current: Revision | None, in_place: str | None, *, frozen: bool) -> RolloutPolicy:
    spec, stable = state.inference.spec, state.before.revision.stable
    seconds = state.observe_seconds(current.name) if current else 0
    trial = current is not None and is_on_trial(current.name, stable, state.pods, seconds, state.deadlines)
    return rollout_policy(spec.rollout, spec.replicas, frozen=frozen, in_place=in_place is not None, trial=trial)


def _next_step(state: State, current: Revision | None, policy: RolloutPolicy) -> RolloutStep | None:
    if current is None:
        return None
    mine, olds = count_pods(current, state.stored, state.observed, state.pods, state.forbidden)
    return next_rollout_step(mine, olds, policy, count_ending_pods(state.pods, state.observed, state.deadlines))
