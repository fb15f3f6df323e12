"""The rollout in one reconcile: selects the revision to run, plans the next step and finds the worst problem."""

from dataclasses import replace

from gaudi_operator.core.problems.criteria import Room
from gaudi_operator.core.problems.pod_problems import failed_pods_problem, first_problem
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
from gaudi_operator.core.rollout.replicas import count_pods, ending_pods, full_replicas
from gaudi_operator.core.rollout.revision import Revision, as_newest
from gaudi_operator.core.rollout.revision_choice import choose_revision, is_on_trial
from gaudi_operator.core.rollout.room import may_go_in_place, stored_answer, unblock, why_in_place
from gaudi_operator.core.rollout.state import RolloutState, State
from gaudi_runtime.errors import Problem


def roll_out(state: State, desired: Revision | None) -> State:
    """Plan the rollout in one reconcile. Return `state` with the rollout and its problem.

    `desired` is the revision that the spec requests. If the spec was refused, `desired` is None and the last revision
    keeps running.
    """
    # The rollout step is not known yet. Until then, only terminating pods count as room for new pods.
    choice = choose_revision(state, desired, Room(_is_ending(state))) if desired else None
    current = as_newest(choice.current, state.stored) if choice else next(iter(state.stored), None)
    in_place = _in_place(state, current.name) if current else None
    frozen = state.violation is not None or (choice is not None and choice.on_hold)
    policy = _policy(state, current, in_place, frozen=frozen)
    rollout = RolloutState(policy, choice, current, _step(state, current, policy), in_place)
    state = replace(state, rollout=rollout)
    return replace(state, problem=_problem(state))


def _problem(state: State) -> Problem | None:
    """Return the worst problem that a user or another component must resolve.

    A rollback is reported only after it is complete.
    """
    rollout = state.rollout
    failed = rollout.choice.problem if rollout.choice else None
    # Pods of a paused revision fail for a known reason. Report this reason, because a pod problem would not explain why
    # the rollout waits.
    if failed and rollout.choice and rollout.choice.on_hold:
        return failed
    name, sets = state.current or "", live_workloads(state.observed)
    own = first_problem(state.updated, [sets[name]] if name in sets else [], state.criteria(name, _room(state)))
    own = worst_problem(each for each in (own, _failed_pods(state, name)) if each)
    own = add_back_off(own, state.failures.get(name), len(state.updated), state.desired, state.deadlines)
    if name in state.forbidden and len(state.updated) < state.desired:
        own = worst_problem(each for each in (own, state.forbidden[name]) if each)
    done = rollout.step is not None and rollout.step.progress is RolloutProgress.DONE
    return own or (failed if done else None)


def _failed_pods(state: State, revision: str) -> Problem | None:
    if sum(pod.ready for pod in state.updated) >= state.desired:
        return None  # enough pods are ready, for example after a scale-down, so failed pods do not matter
    # Failed pods may still exist long after the operator has replaced them.
    found = failed_pods_problem(state.pods, revision)
    running = sum(pod.container is not None and pod.container.running for pod in state.updated)
    # If every replica has a running container, no user needs to act, even if the warm-up takes long. The problem
    # therefore starts now.
    tries = found is not None and running >= state.desired
    return replace(found, since=state.deadlines.now) if found and tries else found


def _is_ending(state: State) -> bool:
    return any(pod.terminating for pod in state.pods)


def _room(state: State) -> Room:
    """Return the room that new pods can expect, including the room that the rollout step frees."""
    rollout, policy, spec = state.rollout, state.rollout.policy, state.inference.spec
    # The step will free room. If the operator reported the pod as unschedulable now, the next reconcile would withdraw
    # the report.
    moving = rollout.in_place is not None and rollout.step is not None and bool(rollout.step.scales)
    stays = policy.max_surge > 0 and (policy.trial or policy.max_unavailable == 0)
    upgrading = state.current is not None and _is_upgrading(state, state.current)
    # The scheduler may still find a node. After the surge timeout, the operator removes old pods to make room.
    asks = upgrading and rollout.in_place is None and may_go_in_place(spec.rollout, spec.replicas)
    waits = stays and upgrading and not asks
    return Room(
        to_come=_is_ending(state) or moving,
        unblock=unblock(spec.rollout, spec.replicas, state.inference.identity) if waits else None,
        in_place_after=spec.rollout.surge_timeout_seconds if asks else None,
    )


def _is_upgrading(state: State, current: str) -> bool:
    """Return True if pods of a revision other than `current` are still desired."""
    sets = live_workloads(state.observed)
    return any(full_replicas(each) for revision, each in sets.items() if revision != current)


def _in_place(state: State, current: str) -> str | None:
    spec, workload = state.inference.spec, live_workloads(state.observed).get(current)
    if not _is_upgrading(state, current):
        # All old pods are already scaled down, but a new pod is not ready yet. Keep the answer until the last new pod
        # is ready.
        missing = sum(pod.ready for pod in state.active_of(current)) < spec.replicas
        kept = missing and current != state.before.revision.stable and may_go_in_place(spec.rollout, spec.replicas)
        return stored_answer(workload) if kept else None
    ending = ending_pods(state.pods, state.observed, state.deadlines) > 0
    mine = state.active_of(current)
    return why_in_place(spec.rollout, spec.replicas, workload, mine, state.deadlines, room_to_come=ending)


def _policy(state: State, current: Revision | None, in_place: str | None, *, frozen: bool) -> RolloutPolicy:
    spec, stable = state.inference.spec, state.before.revision.stable
    seconds = state.observe_seconds(current.name) if current else 0
    trial = current is not None and is_on_trial(current.name, stable, state.pods, seconds, state.deadlines)
    return rollout_policy(spec.rollout, spec.replicas, frozen=frozen, in_place=in_place is not None, trial=trial)


def _step(state: State, current: Revision | None, policy: RolloutPolicy) -> RolloutStep | None:
    if current is None:
        return None
    mine, olds = count_pods(current, state.stored, state.observed, state.pods, state.forbidden)
    return next_rollout_step(mine, olds, policy, ending_pods(state.pods, state.observed, state.deadlines))
