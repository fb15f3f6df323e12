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
from gaudi_operator.core.children.scaling import METRIC
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.judgement import BELOW_THRESHOLD
from gaudi_operator.core.pods.progress import PendingStep, count_waiting
from gaudi_operator.core.pods.slow_bucket import describe_slow_bucket
from gaudi_operator.core.pods.view import ENDED, PodView
from gaudi_operator.core.rendering.execution_mode import runs_on_cpu
from gaudi_operator.core.rollout.planner import RolloutProgress
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import format_timestamp, parse_timestamp
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


def judge_ready(s: State) -> Verdict:
    """Judge the condition Ready: the rollout is complete, and every desired replica receives traffic."""
    # Report a problem that needs a user before any progress.
    if found := s.worst_problem:
        return Verdict(FALSE, found.reason, found.message)
    if s.desired_replicas == 0:
        return _judge_zero_replicas(s)
    if s.rollout.step is not None and s.rollout.step.progress is RolloutProgress.DONE:
        left = _count_surplus_pods(s)
        rest = f" {_describe_surplus_pods(s, left)}" if left else ""
        return Verdict(TRUE, "Serving", f"{_describe_all_serving(s.desired_replicas)} revision {s.current_name}.{rest}")
    return Verdict(FALSE, *describe_progress(s))


def _describe_all_serving(replicas: int) -> str:
    return "1 replica serves" if replicas == 1 else f"All {replicas} replicas serve"


def _judge_zero_replicas(s: State) -> Verdict:
    """Return the verdict on Ready if no replica is desired. Scaling ends when the last pod has released its cards."""
    if left := _count_surplus_pods(s):
        return Verdict(FALSE, "ScalingDown", f"No replica is desired. {_describe_surplus_pods(s, left)}")
    return Verdict(TRUE, "ScaledToZero", "No replica is desired, and no pod runs.")


def _describe_surplus_pods(s: State, left: int) -> str:
    end = "terminating" if sum(pod.terminating for pod in s.pods) >= left else "about to be deleted"
    found = f"{plural(left, 'pod is', 'pods are')} {end}"
    if runs_on_cpu(s.inference.spec.accelerator):
        return f"{found}."
    return f"{found} and {'holds its' if left == 1 else 'hold their'} cards."


def _count_surplus_pods(s: State) -> int:
    """Return how many pods exceed the desired number. These pods hold their cards until they have ended."""
    # Count terminating pods too. They are no replicas, but still hold cards.
    return max(0, sum(pod.phase not in ENDED for pod in s.pods) - s.desired_replicas)


def describe_progress(s: State) -> tuple[str, str]:
    """Return (reason, message) of the condition Ready while the desired state is not reached.

    The function ignores problems.
    """
    serving = f"{_describe_replica_count(len(s.serving_updated_pods), s)} serve revision {s.current_name}"
    if s.rollout.step is not None and s.rollout.step.progress is RolloutProgress.PAUSED:
        others = count_waiting(s.active_pods)
        rest = (
            f" With older revisions, {_describe_replica_count(len(s.serving_pods), s)} serve; "
            f"{_describe_waiting_pods(others)}."
            if others
            else ""
        )
        return "RolloutPaused", f"{serving}. The rollout is paused (spec.rollout.paused: true).{rest}"
    if s.rollout.choice is not None and s.rollout.choice.is_rolled_back and s.rollout.choice.problem:
        return "RollingBack", f"{serving}. {s.rollout.choice.problem.message}"
    if s.old_pods:
        return (
            "RollingOut",
            f"{serving}; {_describe_rollout_wait(s)}. {plural(len(s.old_pods), 'old pod is', 'old pods are')} left.",
        )
    if len(s.active_pods) > s.desired_replicas:
        return (
            "ScalingDown",
            f"{len(s.active_pods)} pods run, but only {s.desired_replicas} "
            f"{'is' if s.desired_replicas == 1 else 'are'} desired.",
        )
    # Use another reason for pods that have not started than for pods that compile.
    waiting, missing = count_waiting(s.updated_pods), s.desired_replicas - len(s.updated_pods)
    reason = "WarmingUp" if PendingStep.WARMING in waiting else "StartingPods"
    listed = [f"{_describe_waiting_pods(waiting)} (details in status.pods)"] if waiting else []
    return reason, f"{serving}; {'; '.join((*_describe_missing_pods(missing), *listed))}."


def _describe_replica_count(count: int, s: State) -> str:
    """Return a number of replicas compared with the desired number. During a scale-down it may be larger."""
    return (
        f"{count} of {s.desired_replicas} replicas"
        if count <= s.desired_replicas
        else f"{count} pods ({s.desired_replicas} desired)"
    )


def _describe_missing_pods(count: int) -> Iterator[str]:
    if count > 0:
        yield f"{plural(count, 'pod is', 'pods are')} not created yet"


def _describe_waiting_pods(waiting: Mapping[PendingStep, int]) -> str:
    found = [plural(count, f"pod is {what}", f"pods are {what}") for what, count in waiting.items()]
    return " and ".join((", ".join(found[:-1]), found[-1]) if len(found) > 1 else found)


def _describe_rollout_wait(s: State) -> str:
    """Return a clause about what the next step of a rollout waits for."""
    if s.rollout.policy.trial:
        seconds = s.observe_seconds(s.current_name)
        opened = f"has been open for {seconds} s" if seconds else "opens"
        place = " in place of an older pod" if s.rollout.in_place else ""
        if not any(pod.is_ready for pod in s.old_pods):
            return f"the first pod is the canary{place}, and no pod of an older revision serves"
        return (
            f"the first pod is the canary{place}, and pods of older revisions serve until the gate of the canary "
            f"{opened}"
        )
    if s.rollout.in_place:
        return f"pods are replaced in place ({s.rollout.in_place.rstrip('.')})"
    return "pods of older revisions are deleted as new pods become ready"


def judge_reconciling(s: State) -> Verdict:
    """Judge the condition Reconciling: the operator is working to reach the desired state."""
    ready = judge_ready(s)
    if ready.status is TRUE:
        return Verdict(FALSE, "Reconciled", "The spec is fully reconciled.")
    if s.is_stalled:
        return Verdict(FALSE, "Stalled", "The operator waits for a change. The condition Stalled has the reason.")
    # A paused rollout still creates missing pods, so check their number.
    if _is_paused(s) and len(s.serving_pods) >= s.desired_replicas:
        return Verdict(FALSE, "RolloutPaused", "No pod is replaced while spec.rollout.paused is true.")
    return Verdict(TRUE, ready.reason, ready.message)


def _is_paused(s: State) -> bool:
    """Return True if the rollout is incomplete and paused by spec.rollout.paused."""
    step = s.rollout.step
    return s.inference.spec.rollout.paused and step is not None and step.progress is RolloutProgress.PAUSED


def judge_stalled(s: State) -> Verdict:
    """Judge the condition Stalled: a user must act."""
    if (found := s.worst_problem) and s.is_stalled:
        return Verdict(TRUE, found.reason, found.message)
    return Verdict(FALSE, "NotStalled", "No action is required.")


def judge_available(s: State) -> Verdict:
    """Judge the condition Available: at least the promised number of pods, of any revision, receives traffic."""
    if s.desired_replicas == 0:
        return Verdict(FALSE, "ScaledToZero", "No replica is desired, so no pod receives traffic.")
    promised = max(1, s.rollout.policy.min_available_pods)
    found = f"{plural(len(s.serving_pods), 'pod is', 'pods are')} ready (minimum {promised})."
    if len(s.serving_pods) >= promised:
        return Verdict(TRUE, "MinimumAvailable", found)
    return Verdict(FALSE, "BelowMinimum", found)


def judge_warmed_up(s: State) -> Verdict:
    """Judge the condition WarmedUp: the gates of all desired replicas of the current revision are open."""
    if s.desired_replicas == 0:
        return Verdict(UNKNOWN, "ScaledToZero", "No replica is desired, so there is nothing to warm up.")
    opened = sum(pod.is_gate_open for pod in s.updated_pods)
    of = f" of revision {s.current_name}" if s.current_name else ""
    found = f"{_describe_replica_count(opened, s)}{of} have passed the readiness gate"
    # With a mutable image tag, pods of one revision may run different releases.
    releases = sorted({pod.report.releases for pod in s.updated_pods if pod.report and pod.report.releases})
    if opened >= s.desired_replicas:
        return Verdict(TRUE, "WarmedUp", " ".join((f"{found}.", *releases)))
    waiting = count_waiting(pod for pod in s.updated_pods if not pod.is_gate_open)
    # If no pod compiles, `WarmingUp` would contradict the condition Ready, which reports that pods have no node or no
    # running container.
    reason = "WarmingUp" if PendingStep.WARMING in waiting else "NoPodWarmingUp"
    found = f"{found}; {_describe_closed_gates(s, waiting)}."
    slow = (f"Pod {pod.name}: {said}" for pod in s.updated_pods if (said := describe_slow_bucket(pod, s.deadlines)))
    return Verdict(FALSE, reason, " ".join((found, *islice(slow, 1), *releases)))


def _describe_closed_gates(s: State, waiting: Mapping[PendingStep, int]) -> str:
    """Return what the replicas of the current revision whose gates are not open wait for."""
    if s.current_name is None:
        return "no pod is created before the spec is accepted (condition PlanAccepted)"
    others = [_describe_waiting_pods(waiting)] if waiting else []
    return "; ".join((*_describe_missing_pods(s.desired_replicas - len(s.updated_pods)), *others))


def judge_degraded(s: State) -> Verdict:
    """Judge the condition Degraded: replicas that served before are missing, or replicas serve below the thresholds."""
    expected, ready = expected_ready_replicas(s), len(s.serving_pods)
    if ready < expected:
        away = [pod for pod in s.active_pods if pod.has_gate_condition and not pod.is_ready]
        named = f" Not ready: {_first_pod_names(away)}." if away else ""
        lost = plural(expected - ready, "replica was lost", "replicas were lost")
        found = f"{lost}: {plural(ready, 'replica is', 'replicas are')} ready, but {expected} were ready before.{named}"
        return Verdict(TRUE, "ReplicasLost", found)
    below = [pod for pod in s.serving_pods if pod.gate and pod.gate.reason == BELOW_THRESHOLD]
    if below:
        serve = plural(len(below), "pod serves", "pods serve")
        found = f"{serve} with fewer graphs than spec.readiness requires: {_first_pod_names(below)}."
        return Verdict(TRUE, "BelowThresholds", found)
    return Verdict(FALSE, "AsExpected", "No replica is lost, and no pod serves below the thresholds.")


def _first_pod_names(pods: Sequence[PodView]) -> str:
    return ", ".join(pod.name for pod in pods[:3])


def expected_ready_replicas(s: State) -> int:
    """Return how many replicas should receive traffic now. If fewer receive traffic, replicas are lost.

    The result is the highest number of ready replicas since spec.replicas was last lowered. During a rollout, it is
    reduced to the minimum number of available pods. The number rises as pods become ready, so pods that were never
    ready do not count as lost.
    """
    before = s.before.expected_ready_replicas
    if s.current_name != s.stable_name:
        before = min(before, s.rollout.policy.min_available_pods)
    return min(s.desired_replicas, max(before, len(s.serving_pods)))


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


def judge_autoscaler_active(s: State) -> Verdict | None:
    """Judge the condition AutoscalerActive, or return None if the resource has no autoscaler.

    The verdict is based on the conditions of the HorizontalPodAutoscaler.
    """
    desired = s.inference.spec.autoscaling
    if desired is None:
        return None
    # An autoscaler cannot scale up from zero, because pods provide its metric.
    if s.desired_replicas == 0:
        return Verdict(
            UNKNOWN,
            "ScaledToZero",
            "The autoscaler is inactive while spec.replicas is 0. To start pods, raise spec.replicas.",
        )
    # A resource has at most one autoscaler, which has the name of the resource.
    status = next(iter(s.observed.autoscalers), {}).get("status") or {}
    said = {each["type"]: each for each in status.get("conditions") or ()}
    if not said:
        return Verdict(UNKNOWN, "NotObservedYet", "The autoscaler has not reported a status yet.")
    if _is_api_undiscovered(said.get("AbleToScale", {}), s.deadlines):
        return Verdict(
            UNKNOWN, "NotObservedYet", "The autoscaler has not discovered the GaudiInference API yet and retries."
        )
    for kind in ("AbleToScale", "ScalingActive"):
        if kind in said and said[kind]["status"] == "False":
            return _judge_inactive_autoscaler(said[kind], _NO_OTHER_METRIC if desired.metrics else _NO_METRIC)
    between = f"{desired.min_replicas} to {desired.max_replicas}"
    return Verdict(
        TRUE,
        "ScalingActive",
        f"The autoscaler requests spec.replicas: {status.get('desiredReplicas')} (allowed: {between}).",
    )


def _is_api_undiscovered(able: Mapping[str, Any], deadlines: Deadlines) -> bool:
    """Return True if the autoscaler may report FailedGetScale only because it does not know the CRD yet."""
    if (able.get("status"), able.get("reason")) != ("False", "FailedGetScale"):
        return False
    since = parse_timestamp(able.get("lastTransitionTime"))
    return since is not None and not deadlines.has_passed(since, NEW_KIND_SECONDS)


def _judge_inactive_autoscaler(condition: Mapping[str, Any], without_metric: str) -> Verdict:
    reason, message = condition.get("reason") or "", str(condition.get("message") or "no reason was reported")
    sentence = f"The autoscaler does not scale: {message.strip().rstrip('.')}."
    word = reason if _WORD.fullmatch(reason) else "NotActive"
    return Verdict(FALSE, word, f"{sentence} {without_metric}" if "Metric" in word else sentence)


MAX_MESSAGE = 2048


def build_conditions(
    verdicts: Iterable[tuple[str, Verdict]], before: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions for `verdicts`. If a status is unchanged, its transition time comes from `before`."""
    times = {(each.type, each.status): each.last_transition_time for each in before}
    return tuple(
        Condition(
            type=kind,
            status=verdict.status,
            reason=verdict.reason,
            message=verdict.message[:MAX_MESSAGE],
            last_transition_time=times.get((kind, verdict.status), format_timestamp(now)),
            observed_generation=generation,
        )
        for kind, verdict in verdicts
    )
