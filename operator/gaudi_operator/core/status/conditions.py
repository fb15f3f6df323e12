"""The conditions of a resource: one table, one judgement each, as kstatus and `kubectl wait` expect them.

docs/conditions.md lists all of them with their reasons. Here stand three groups, and plan.py has the fourth:
Ready, Reconciling and Stalled say how far a resource is on the way to what is desired. Ready alone says whether all is
as desired; Reconciling is True while the operator is at it; Stalled is True only when nothing moves on without
a person. The last two are never True together, and one of them is True whenever Ready is False.
Available, WarmedUp and Degraded compare what the pods give now with what was promised.
AutoscalerActive says whether the autoscaler of spec.autoscaling counts and may scale (docs/scaling.md).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus
from gaudi_operator.core.children.manifests.horizontal_pod_autoscaler import METRIC
from gaudi_operator.core.names import GATE
from gaudi_operator.core.notation import read_moment, timestamp
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.delays import slow_bucket
from gaudi_operator.core.pods.gate import SETTLE_SECONDS
from gaudi_operator.core.pods.view import ENDED, PodView
from gaudi_operator.core.rollout.planner import Progress
from gaudi_operator.core.status.plan import judge_bucket_coverage, judge_plan_accepted, judge_settings_effective
from gaudi_operator.core.status.situation import FALSE, TRUE, UNKNOWN, Situation, Verdict


def judge_ready(s: Situation) -> Verdict:
    """Whether the spec as it stands is fully rolled out and every desired replica takes traffic."""
    if found := s.violation or s.problem:
        return Verdict(FALSE, found.reason, found.message)
    if s.desired == 0:
        return _zero(s)
    if s.step is not None and s.step.progress is Progress.DONE:
        left = _ending(s)
        rest = f"; {left} more still end, and hold their cards until then" if left else ""
        return Verdict(TRUE, "Serving", f"All {s.desired} replicas serve revision {s.current}{rest}.")
    return Verdict(FALSE, *_in_progress(s))


def _zero(s: Situation) -> Verdict:
    """Scaled to zero is over only when the last pod has drained: until then cards are still held."""
    if left := _ending(s):
        return Verdict(FALSE, "ScalingDown", f"{left} pods are still ending, none is desired.")
    return Verdict(TRUE, "ScaledToZero", "No replica is desired, and none runs.")


def _ending(s: Situation) -> int:
    """Pods above those that are desired, which hold their cards until they have ended."""
    return max(0, sum(pod.phase not in ENDED for pod in s.pods) - s.desired)


def _in_progress(s: Situation) -> tuple[str, str]:
    serving = f"{len(s.serving_updated)} of {s.desired} replicas serve revision {s.current}"
    if s.step is not None and s.step.progress is Progress.PAUSED:
        return "RolloutPaused", f"{serving}; the rollout waits for spec.rollout.paused to become false."
    if s.choice is not None and s.choice.rolled_back and s.choice.problem:
        return "RollingBack", f"{serving}. {s.choice.problem.message}"
    if s.old:
        return "RollingOut", f"{serving}; {_pace(s)}, {len(s.old)} left."
    if len(s.active) > s.desired:
        return "ScalingDown", f"{len(s.active)} pods run, {s.desired} are desired."
    if len(s.updated) < s.desired:
        return "StartingPods", f"{serving}; {s.desired - len(s.updated)} pods are still to be made."
    return "WarmingUp", f"{serving}; the others are warming up (status.pods says how far they are)."


def _pace(s: Situation) -> str:
    """What the next step of a rollout waits for."""
    if s.policy.trial:
        seconds = s.inference.spec.rollout.canary.observe_seconds
        held = f" and has held it for {seconds} s" if seconds else ""
        place = " in the place of an older one" if s.in_place else ""
        return f"its first pod is the canary{place}, older pods serve until it has passed its gate{held}"
    if s.in_place:
        return f"pods are replaced in place ({s.in_place.rstrip('.')})"
    return "pods of older revisions go as new ones warm up"


def judge_reconciling(s: Situation) -> Verdict:
    """Whether the operator is on its way to what is desired."""
    ready = judge_ready(s)
    if ready.status is TRUE:
        return Verdict(FALSE, "Settled", "Everything is as the spec asks.")
    if s.violation or s.problem:
        return Verdict(FALSE, "Stalled", "Nothing moves on by itself; the condition Stalled says why.")
    return Verdict(TRUE, ready.reason, ready.message)


def judge_stalled(s: Situation) -> Verdict:
    """Whether a person must act."""
    if found := s.violation or s.problem:
        return Verdict(TRUE, found.reason, found.message)
    return Verdict(FALSE, "NotStalled", "Nothing asks for a person.")


def judge_available(s: Situation) -> Verdict:
    """Whether at least the promised number of pods takes traffic, of any revision."""
    promised = max(1, s.policy.floor) if s.desired else 0
    found = f"{len(s.serving)} pods take traffic, at least {promised} are promised."
    if len(s.serving) >= promised:
        return Verdict(TRUE, "MinimumAvailable", found)
    return Verdict(FALSE, "BelowMinimum", found)


def judge_warmed_up(s: Situation) -> Verdict:
    """Whether every desired replica of the current revision has passed its gate."""
    if s.desired == 0:
        return Verdict(UNKNOWN, "ScaledToZero", "No replica is desired, so there is nothing to warm up.")
    opened = sum(pod.gate_open for pod in s.updated)
    found = f"{opened} of {s.desired} replicas of revision {s.current} have passed the gate {GATE}."
    if opened >= s.desired:
        return Verdict(TRUE, "WarmedUp", found)
    slow = (f" Pod {pod.name}: {said}" for pod in s.updated if (said := slow_bucket(pod, s.now)))
    return Verdict(FALSE, "WarmingUp", found + next(slow, ""))


def judge_degraded(s: Situation) -> Verdict:
    """Whether replicas that have served are missing, or serve below the thresholds."""
    lost = [pod for pod in s.active if _is_lost(pod, s.now)]
    if lost:
        names = ", ".join(pod.name for pod in lost[:3])
        return Verdict(TRUE, "ReplicasLost", f"{len(lost)} pods that have served take no traffic now: {names}.")
    below = [pod for pod in s.serving if pod.conditions[GATE].reason == "OpenedBelowThreshold"]
    if below:
        names = ", ".join(pod.name for pod in below[:3])
        return Verdict(
            TRUE,
            "BelowThresholds",
            f"{len(below)} pods serve although fewer graphs are captured than spec.readiness asks for: {names}.",
        )
    return Verdict(FALSE, "AsPromised", "No replica that has served is missing, and none serves below the thresholds.")


def _is_lost(pod: PodView, now: datetime) -> bool:
    if not pod.served or pod.ready:
        return False
    opened = pod.conditions[GATE].since
    return not pod.gate_open or opened is None or now - opened > timedelta(seconds=SETTLE_SECONDS)


NEW_KIND_SECONDS = 60
"""The controller manager learns of a new CustomResourceDefinition within 30 s, and an autoscaler looks every 15 s."""

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
"""What a reason is: that of an autoscaler may be any text."""

_NO_METRIC = (
    f"A metrics adapter must serve the metric {METRIC} of the pods (docs/scaling.md, Autoscale); until then replicas "
    "stay as they are."
)


def judge_autoscaler_active(s: Situation) -> Verdict | None:
    """What the HorizontalPodAutoscaler says of itself; None where none is desired."""
    desired = s.inference.spec.autoscaling
    if desired is None:
        return None
    if s.desired == 0:
        return Verdict(UNKNOWN, "ScaledToZero", "The autoscaler rests while replicas are 0: it wakes nobody.")
    status = (s.autoscaler or {}).get("status") or {}
    said = {each["type"]: each for each in status.get("conditions") or ()}
    if not said:
        return Verdict(UNKNOWN, "NotCountedYet", "The autoscaler has not looked yet.")
    if learning_seconds(s.autoscaler, s.now) is not None:
        return Verdict(UNKNOWN, "NotCountedYet", "The autoscaler does not know GaudiInferences yet: it looks again.")
    for kind in ("AbleToScale", "ScalingActive"):
        if kind in said and said[kind]["status"] == "False":
            return _hindered(said[kind])
    between = f"{desired.min_replicas} to {desired.max_replicas}"
    return Verdict(TRUE, "Counting", f"The autoscaler asks for {status.get('desiredReplicas')} of {between} replicas.")


def learning_seconds(autoscaler: Manifest | None, now: datetime) -> float | None:
    """Seconds for which FailedGetScale still means that the cluster is new; None where it does not, or is not said."""
    conditions: Iterable[Mapping[str, Any]] = ((autoscaler or {}).get("status") or {}).get("conditions") or ()
    for each in conditions:
        if (each["type"], each["status"], each.get("reason")) == ("AbleToScale", "False", "FailedGetScale"):
            since = read_moment(each.get("lastTransitionTime"))
            left = NEW_KIND_SECONDS - (now - since).total_seconds() if since else 0
            return left if left > 0 else None
    return None


def _hindered(condition: Mapping[str, Any]) -> Verdict:
    reason, message = condition.get("reason") or "", str(condition.get("message") or "It says no reason")
    sentence = f"The autoscaler does not scale: {message.strip().rstrip('.')}."
    word = reason if _WORD.fullmatch(reason) else "NotActive"
    return Verdict(FALSE, word, f"{sentence} {_NO_METRIC}" if "Metric" in word else sentence)


MAX_MESSAGE = 2048


@dataclass(frozen=True)
class ConditionKind:
    """A row of the table; `good` is the status that asks for nobody. A judgement of None leaves the condition out."""

    type: str
    good: ConditionStatus
    meaning: str
    judge: Callable[[Situation], Verdict | None]


CONDITIONS = (
    ConditionKind("Ready", TRUE, "The spec is fully rolled out, and every desired replica takes traffic.", judge_ready),
    ConditionKind("Reconciling", FALSE, "The operator is on its way to what is desired.", judge_reconciling),
    ConditionKind("Stalled", FALSE, "Nothing moves on until a person acts.", judge_stalled),
    ConditionKind(
        "Available", TRUE, "At least the promised number of pods takes traffic, of any revision.", judge_available
    ),
    ConditionKind(
        "WarmedUp", TRUE, "Every desired replica of the current revision has passed its gate.", judge_warmed_up
    ),
    ConditionKind(
        "PlanAccepted", TRUE, "The spec can work, as far as can be known before a pod runs.", judge_plan_accepted
    ),
    ConditionKind(
        "Degraded", FALSE, "Replicas that have served are missing, or serve below the thresholds.", judge_degraded
    ),
    ConditionKind(
        "BucketCoverage",
        TRUE,
        "Every admissible batch has a bucket, and every request so far met a warm graph.",
        judge_bucket_coverage,
    ),
    ConditionKind("SettingsEffective", TRUE, "Every setting of the spec has an effect.", judge_settings_effective),
    ConditionKind(
        "AutoscalerActive",
        TRUE,
        "The autoscaler counts requests and may scale. Only there with spec.autoscaling.",
        judge_autoscaler_active,
    ),
)


def judge_conditions(situation: Situation) -> tuple[Condition, ...]:
    """All conditions; a transition time moves only when the status does."""
    judged = ((kind.type, kind.judge(situation)) for kind in CONDITIONS)
    verdicts = [(kind, verdict) for kind, verdict in judged if verdict is not None]
    return conditions_from(
        verdicts, situation.before.conditions, situation.inference.identity.generation, situation.now
    )


def conditions_from(
    verdicts: Iterable[tuple[str, Verdict]], before: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions of `verdicts`, with the transition times of those `before` that have the same status."""
    times = {(each.type, each.status): each.last_transition_time for each in before}
    return tuple(
        Condition(
            type=kind,
            status=verdict.status,
            reason=verdict.reason,
            message=verdict.message[:MAX_MESSAGE],
            last_transition_time=times.get((kind, verdict.status), timestamp(now)),
            observed_generation=generation,
        )
        for kind, verdict in verdicts
    )
