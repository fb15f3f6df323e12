"""The verdicts on the conditions of a resource, compatible with kstatus and `kubectl wait`.

docs/reference/conditions.md lists all conditions and reasons. condition_table.py contains the table, and
spec_conditions.py judges the conditions of the plan. Ready, Reconciling and Stalled report the progress towards the
desired state. Ready is True if the desired state is reached. Reconciling is True while the operator works or others may
still resolve a problem. Stalled is True only if a user must act. Reconciling and Stalled are never True at the same
time. If Ready is False, one of them is True, unless the rollout is paused. Available, WarmedUp and Degraded compare the
pods with the promised number. AutoscalerActive reports whether the autoscaler of spec.autoscaling works
(docs/how-to/scaling.md).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus
from gaudi_operator.core.children.manifests import METRIC
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.judgement import BELOW_THRESHOLD
from gaudi_operator.core.pods.pod_progress import PodPendingStep, count_pod_progress_steps
from gaudi_operator.core.pods.pod_view import ENDED, PodView
from gaudi_operator.core.pods.slow_bucket import describe_slow_bucket
from gaudi_operator.core.rendering.runtime_config import runs_on_cpu
from gaudi_operator.core.rollout.rollout_step import RolloutStepProgress
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import format_timestamp, parse_timestamp_text
from gaudi_runtime.units import plural

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True)
class Verdict:
    """The verdict on one condition: status, reason and message.

    The type and the transition time are added when conditions are written.
    """

    status: ConditionStatus
    reason: str
    message: str


def judge_ready(state: State) -> Verdict:
    """Judge the condition Ready: the rollout is complete, and every desired replica receives traffic."""
    # Report a problem that needs a user before any progress.
    if problem := state.worst_problem:
        return Verdict(FALSE, problem.reason, problem.message)
    if state.desired_replicas == 0:
        return _judge_zero_replicas(state)
    if state.rollout.step is not None and state.rollout.step.progress is RolloutStepProgress.DONE:
        surplus = _count_surplus_pods(state)
        suffix = f" {_describe_surplus_pods(state, surplus)}" if surplus else ""
        return Verdict(
            TRUE, "Serving", f"{_describe_all_serving(state.desired_replicas)} revision {state.current_name}.{suffix}"
        )
    return Verdict(FALSE, *_describe_progress(state))


def _describe_all_serving(replicas: int) -> str:
    return "1 replica serves" if replicas == 1 else f"All {replicas} replicas serve"


def _judge_zero_replicas(state: State) -> Verdict:
    """Return the verdict on Ready if no replica is desired. Scaling ends when the last pod has released its cards."""
    if surplus := _count_surplus_pods(state):
        return Verdict(FALSE, "ScalingDown", f"No replica is desired. {_describe_surplus_pods(state, surplus)}")
    return Verdict(TRUE, "ScaledToZero", "No replica is desired, and no pod runs.")


def _describe_surplus_pods(state: State, surplus: int) -> str:
    phase = "terminating" if sum(pod.terminating for pod in state.pods) >= surplus else "about to be deleted"
    clause = f"{plural(surplus, 'pod is', 'pods are')} {phase}"
    if runs_on_cpu(state.inference.spec.accelerator):
        return f"{clause}."
    return f"{clause} and {'holds its' if surplus == 1 else 'hold their'} cards."


def _count_surplus_pods(state: State) -> int:
    """Return how many pods exceed the desired number. These pods hold their cards until they have ended."""
    # Count terminating pods too. They are no replicas, but still hold cards.
    return max(0, sum(pod.phase not in ENDED for pod in state.pods) - state.desired_replicas)


def _describe_progress(state: State) -> tuple[str, str]:
    """Return (reason, message) of the condition Ready while the desired state is not reached."""
    clause = f"{_describe_replica_count(len(state.serving_updated_pods), state)} serve revision {state.current_name}"
    if state.rollout.step is not None and state.rollout.step.progress is RolloutStepProgress.PAUSED:
        waiting_counts = count_pod_progress_steps(state.active_pods)
        suffix = (
            f" With older revisions, {_describe_replica_count(len(state.serving_pods), state)} serve; "
            f"{_describe_waiting_pods(waiting_counts)}."
            if waiting_counts
            else ""
        )
        return "RolloutPaused", f"{clause}. The rollout is paused (spec.rollout.paused: true).{suffix}"
    if state.rollout.choice is not None and state.rollout.choice.is_rolled_back and state.rollout.choice.problem:
        return "RollingBack", f"{clause}. {state.rollout.choice.problem.message}"
    if state.old_pods:
        return (
            "RollingOut",
            f"{clause}; {_describe_rollout_wait(state)}. "
            f"{plural(len(state.old_pods), 'old pod is', 'old pods are')} left.",
        )
    if len(state.active_pods) > state.desired_replicas:
        return (
            "ScalingDown",
            f"{len(state.active_pods)} pods run, but only {state.desired_replicas} "
            f"{'is' if state.desired_replicas == 1 else 'are'} desired.",
        )
    # Use another reason for pods that have not started than for pods that compile.
    counts_by_step, missing_count = (
        count_pod_progress_steps(state.updated_pods),
        state.desired_replicas - len(state.updated_pods),
    )
    reason = "WarmingUp" if PodPendingStep.WARMING in counts_by_step else "StartingPods"
    details = [f"{_describe_waiting_pods(counts_by_step)} (details in status.pods)"] if counts_by_step else []
    return reason, f"{clause}; {'; '.join((*_describe_missing_pods(missing_count), *details))}."


def _describe_replica_count(replicas: int, state: State) -> str:
    """Return a number of replicas compared with the desired number. During a scale-down it may be larger."""
    return (
        f"{replicas} of {state.desired_replicas} replicas"
        if replicas <= state.desired_replicas
        else f"{replicas} pods ({state.desired_replicas} desired)"
    )


def _describe_missing_pods(pod_count: int) -> Iterator[str]:
    if pod_count > 0:
        yield f"{plural(pod_count, 'pod is', 'pods are')} not created yet"


def _describe_waiting_pods(counts_by_step: Mapping[PodPendingStep, int]) -> str:
    clauses = [plural(count, f"pod is {step}", f"pods are {step}") for step, count in counts_by_step.items()]
    return " and ".join((", ".join(clauses[:-1]), clauses[-1]) if len(clauses) > 1 else clauses)


def _describe_rollout_wait(state: State) -> str:
    """Return a clause about what the next step of a rollout waits for."""
    if state.rollout.policy.trial:
        open_seconds = state.observe_seconds(state.current_name)
        gate_clause = f"has been open for {open_seconds} s" if open_seconds else "opens"
        place = " in place of an older pod" if state.rollout.in_place_reason else ""
        if not any(pod.is_ready for pod in state.old_pods):
            return f"the first pod is the canary{place}, and no pod of an older revision serves"
        return (
            f"the first pod is the canary{place}, and pods of older revisions serve until the gate of the canary "
            f"{gate_clause}"
        )
    if state.rollout.in_place_reason:
        return f"pods are replaced in place ({state.rollout.in_place_reason.rstrip('.')})"
    return "pods of older revisions are deleted as new pods become ready"


def judge_reconciling(state: State) -> Verdict:
    """Judge the condition Reconciling: the operator is working to reach the desired state."""
    ready_verdict = judge_ready(state)
    if ready_verdict.status is TRUE:
        return Verdict(FALSE, "Reconciled", "The spec is fully reconciled.")
    if state.is_stalled:
        return Verdict(FALSE, "Stalled", "The operator waits for a change. The condition Stalled has the reason.")
    # A paused rollout still creates missing pods, so check their number.
    if _is_paused(state) and len(state.serving_pods) >= state.desired_replicas:
        return Verdict(FALSE, "RolloutPaused", "No pod is replaced while spec.rollout.paused is true.")
    return Verdict(TRUE, ready_verdict.reason, ready_verdict.message)


def _is_paused(state: State) -> bool:
    """Return True if the rollout is incomplete and paused by spec.rollout.paused."""
    step = state.rollout.step
    return state.inference.spec.rollout.paused and step is not None and step.progress is RolloutStepProgress.PAUSED


def judge_stalled(state: State) -> Verdict:
    """Judge the condition Stalled: a user must act."""
    if (problem := state.worst_problem) and state.is_stalled:
        return Verdict(TRUE, problem.reason, problem.message)
    return Verdict(FALSE, "NotStalled", "No action is required.")


def judge_available(state: State) -> Verdict:
    """Judge the condition Available: at least the promised number of pods, of any revision, receives traffic."""
    if state.desired_replicas == 0:
        return Verdict(FALSE, "ScaledToZero", "No replica is desired, so no pod receives traffic.")
    min_pods = max(1, state.rollout.policy.min_available_pods)
    message = f"{plural(len(state.serving_pods), 'pod is', 'pods are')} ready (minimum {min_pods})."
    if len(state.serving_pods) >= min_pods:
        return Verdict(TRUE, "MinimumAvailable", message)
    return Verdict(FALSE, "BelowMinimum", message)


def judge_warmed_up(state: State) -> Verdict:
    """Judge the condition WarmedUp: the gates of all desired replicas of the current revision are open."""
    if state.desired_replicas == 0:
        return Verdict(UNKNOWN, "ScaledToZero", "No replica is desired, so there is nothing to warm up.")
    open_gates = sum(pod.is_gate_open for pod in state.updated_pods)
    revision_clause = f" of revision {state.current_name}" if state.current_name else ""
    message = f"{_describe_replica_count(open_gates, state)}{revision_clause} have passed the readiness gate"
    # With a mutable image tag, pods of one revision may run different releases.
    releases = sorted({pod.report.releases for pod in state.updated_pods if pod.report and pod.report.releases})
    if open_gates >= state.desired_replicas:
        return Verdict(TRUE, "WarmedUp", " ".join((f"{message}.", *releases)))
    counts_by_step = count_pod_progress_steps(pod for pod in state.updated_pods if not pod.is_gate_open)
    # If no pod compiles, `WarmingUp` would contradict the condition Ready, which reports that pods have no node or no
    # running container.
    reason = "WarmingUp" if PodPendingStep.WARMING in counts_by_step else "NoPodWarmingUp"
    message = f"{message}; {_describe_closed_gates(state, counts_by_step)}."
    slow = (
        f"Pod {pod.name}: {text}" for pod in state.updated_pods if (text := describe_slow_bucket(pod, state.deadlines))
    )
    return Verdict(FALSE, reason, " ".join((message, *islice(slow, 1), *releases)))


def _describe_closed_gates(state: State, counts_by_step: Mapping[PodPendingStep, int]) -> str:
    """Return what the replicas of the current revision whose gates are not open wait for."""
    if state.current_name is None:
        return "no pod is created before the spec is accepted (condition PlanAccepted)"
    clauses = [_describe_waiting_pods(counts_by_step)] if counts_by_step else []
    return "; ".join((*_describe_missing_pods(state.desired_replicas - len(state.updated_pods)), *clauses))


def judge_degraded(state: State) -> Verdict:
    """Judge the condition Degraded: replicas that served before are missing, or replicas serve below the thresholds."""
    expected_count, ready_count = expected_ready_replicas(state), len(state.serving_pods)
    if ready_count < expected_count:
        unready_pods = [pod for pod in state.active_pods if pod.has_gate_condition and not pod.is_ready]
        suffix = f" Not ready: {_first_pod_names(unready_pods)}." if unready_pods else ""
        lost_clause = plural(expected_count - ready_count, "replica was lost", "replicas were lost")
        ready_clause = plural(ready_count, "replica is", "replicas are")
        message = f"{lost_clause}: {ready_clause} ready, but {expected_count} were ready before.{suffix}"
        return Verdict(TRUE, "ReplicasLost", message)
    pods_below_threshold = [pod for pod in state.serving_pods if pod.gate and pod.gate.reason == BELOW_THRESHOLD]
    if pods_below_threshold:
        clause = plural(len(pods_below_threshold), "pod serves", "pods serve")
        message = f"{clause} with fewer graphs than spec.readiness requires: {_first_pod_names(pods_below_threshold)}."
        return Verdict(TRUE, "BelowThresholds", message)
    return Verdict(FALSE, "AsExpected", "No replica is lost, and no pod serves below the thresholds.")


def _first_pod_names(pods: Sequence[PodView]) -> str:
    return ", ".join(pod.name for pod in pods[:3])


def expected_ready_replicas(state: State) -> int:
    """Return how many replicas should receive traffic now. If fewer receive traffic, replicas are lost.

    The result is the highest number of ready replicas since spec.replicas was last lowered. During a rollout, it is
    reduced to the minimum number of available pods. The number rises as pods become ready, so pods that were never
    ready do not count as lost.
    """
    expected_count = state.previous_status.expected_ready_replicas
    if state.current_name != state.stable_name:
        expected_count = min(expected_count, state.rollout.policy.min_available_pods)
    return min(state.desired_replicas, max(expected_count, len(state.serving_pods)))


NEW_KIND_SECONDS = 60
"""Seconds until an autoscaler finds a new CRD. The controller manager needs up to 30 s, and syncs every 15 s."""

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
"""The form of a condition reason. The reason of an autoscaler may be any text."""

_NO_METRIC = (
    f"A metrics adapter must serve the metric {METRIC} of the pods (manual: Scaling, Serve the metric). Until then, "
    "the number of replicas does not change."
)
_NO_OTHER_METRIC = (
    "A metrics adapter must serve each metric of spec.autoscaling.metrics. Until then, the number of "
    "replicas does not change."
)


def judge_autoscaler_active(state: State) -> Verdict | None:
    """Judge the condition AutoscalerActive, or return None if the resource has no autoscaler.

    The verdict is based on the conditions of the HorizontalPodAutoscaler.
    """
    autoscaling = state.inference.spec.autoscaling
    if autoscaling is None:
        return None
    # An autoscaler cannot scale up from zero, because pods provide its metric.
    if state.desired_replicas == 0:
        return Verdict(
            UNKNOWN,
            "ScaledToZero",
            "The autoscaler is inactive while spec.replicas is 0. To start pods, raise spec.replicas.",
        )
    # A resource has at most one autoscaler, which has the name of the resource.
    status = next(iter(state.observed.autoscalers), {}).get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if not conditions:
        return Verdict(UNKNOWN, "NotObservedYet", "The autoscaler has not reported a status yet.")
    if _is_api_undiscovered(conditions.get("AbleToScale", {}), state.deadlines):
        return Verdict(
            UNKNOWN, "NotObservedYet", "The autoscaler has not discovered the GaudiInference API yet and retries."
        )
    for kind in ("AbleToScale", "ScalingActive"):
        if kind in conditions and conditions[kind]["status"] == "False":
            return _judge_inactive_autoscaler(conditions[kind], _NO_OTHER_METRIC if autoscaling.metrics else _NO_METRIC)
    bounds = f"{autoscaling.min_replicas} to {autoscaling.max_replicas}"
    return Verdict(
        TRUE,
        "ScalingActive",
        f"The autoscaler requests spec.replicas: {status.get('desiredReplicas')} (allowed: {bounds}).",
    )


def _is_api_undiscovered(condition: Mapping[str, Any], deadlines: Deadlines) -> bool:
    """Return True if the autoscaler may report FailedGetScale only because it does not know the CRD yet."""
    if (condition.get("status"), condition.get("reason")) != ("False", "FailedGetScale"):
        return False
    failed_at = parse_timestamp_text(condition.get("lastTransitionTime"))
    return failed_at is not None and not deadlines.has_passed(failed_at, NEW_KIND_SECONDS)


def _judge_inactive_autoscaler(condition: Mapping[str, Any], metric_advice: str) -> Verdict:
    reason, message = condition.get("reason") or "", str(condition.get("message") or "no reason was reported")
    sentence = f"The autoscaler does not scale: {message.strip().rstrip('.')}."
    verdict_reason = reason if _WORD.fullmatch(reason) else "NotActive"
    return Verdict(FALSE, verdict_reason, f"{sentence} {metric_advice}" if "Metric" in verdict_reason else sentence)


MAX_MESSAGE = 2048


def build_conditions(
    verdicts: Iterable[tuple[str, Verdict]], previous: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions for `verdicts`. If a status is unchanged, its transition time comes from `previous`."""
    transition_times = {(condition.type, condition.status): condition.last_transition_time for condition in previous}
    return tuple(
        Condition(
            type=condition_type,
            status=verdict.status,
            reason=verdict.reason,
            message=verdict.message[:MAX_MESSAGE],
            last_transition_time=transition_times.get((condition_type, verdict.status), format_timestamp(now)),
            observed_generation=generation,
        )
        for condition_type, verdict in verdicts
    )
