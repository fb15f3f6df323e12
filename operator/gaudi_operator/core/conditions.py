"""The conditions of a resource: one table, one judgement each (docs/conditions.md).

They follow what kstatus and `kubectl wait` expect: Ready alone says whether all is as wished; Reconciling is True
while the operator is at it; Stalled is True only when nothing moves on without a person. The last two are never
True together, and one of them is True whenever Ready is False.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from gaudi_operator.api.v1alpha1.status import Condition
from gaudi_operator.core.names import GATE
from gaudi_operator.core.plan_conditions import (
    judge_bucket_coverage,
    judge_plan_accepted,
    judge_settings_effective,
)
from gaudi_operator.core.pods import ENDED, PodView
from gaudi_operator.core.rollout import Progress
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.verdict import FALSE, TRUE, UNKNOWN, Verdict

MAX_MESSAGE = 2048
SETTLE_SECONDS = 10
"""A pod whose gate has just opened is not ready until the kubelet has looked; that is no loss."""


class Polarity(StrEnum):
    """Which status of a condition is the good one."""

    GOOD_WHEN_TRUE = "good when True"
    BAD_WHEN_TRUE = "bad when True"


@dataclass(frozen=True)
class ConditionKind:
    """A row of the table."""

    type: str
    polarity: Polarity
    meaning: str
    judge: Callable[[Situation], Verdict]


def judge_ready(s: Situation) -> Verdict:
    """Whether the spec as it stands is fully rolled out and every wished replica takes traffic."""
    if hindrance := s.violation or s.trouble:
        return Verdict(FALSE, hindrance.reason, hindrance.message)
    if s.wished == 0:
        return _zero(s)
    if s.step is not None and s.step.progress is Progress.DONE:
        return Verdict(TRUE, "Serving", f"All {s.wished} replicas serve revision {s.current}.")
    return Verdict(FALSE, *_in_progress(s))


def _zero(s: Situation) -> Verdict:
    """Scaled to zero is over only when the last pod has drained: until then cards are still held."""
    left = sum(pod.phase not in ENDED for pod in s.pods)
    if left:
        return Verdict(FALSE, "ScalingDown", f"{left} pods are still ending, none is wished.")
    return Verdict(TRUE, "ScaledToZero", "No replica is wished, and none runs.")


def _in_progress(s: Situation) -> tuple[str, str]:
    serving = f"{len(s.serving_updated)} of {s.wished} replicas serve revision {s.current}"
    if s.step is not None and s.step.progress is Progress.PAUSED:
        return "RolloutPaused", f"{serving}; the rollout waits for spec.rollout.paused to become false."
    if s.old:
        return "RollingOut", f"{serving}; pods of older revisions go as new ones warm up, {len(s.old)} left."
    if len(s.active) > s.wished:
        return "ScalingDown", f"{len(s.active)} pods run, {s.wished} are wished."
    if len(s.updated) < s.wished:
        return "StartingPods", f"{serving}; {s.wished - len(s.updated)} pods are still to be made."
    return "WarmingUp", f"{serving}; the others are warming up (status.pods says how far they are)."


def judge_reconciling(s: Situation) -> Verdict:
    """Whether the operator is on its way to what is wished."""
    ready = judge_ready(s)
    if ready.status is TRUE:
        return Verdict(FALSE, "Settled", "Everything is as the spec wishes.")
    if s.violation or s.trouble:
        return Verdict(FALSE, "Stalled", "Nothing moves on by itself; the condition Stalled says why.")
    return Verdict(TRUE, ready.reason, ready.message)


def judge_stalled(s: Situation) -> Verdict:
    """Whether a person must act."""
    if hindrance := s.violation or s.trouble:
        return Verdict(TRUE, hindrance.reason, hindrance.message)
    return Verdict(FALSE, "NotStalled", "Nothing asks for a person.")


def judge_available(s: Situation) -> Verdict:
    """Whether at least the promised number of pods takes traffic, of any revision."""
    promised = max(1, s.policy.floor) if s.wished else 0
    found = f"{len(s.serving)} pods take traffic, at least {promised} are promised."
    if len(s.serving) >= promised:
        return Verdict(TRUE, "MinimumAvailable", found)
    return Verdict(FALSE, "BelowMinimum", found)


def judge_warmed_up(s: Situation) -> Verdict:
    """Whether every wished replica of the current revision has passed its gate."""
    if s.wished == 0:
        return Verdict(UNKNOWN, "ScaledToZero", "No replica is wished, so there is nothing to warm up.")
    opened = sum(pod.gate_open for pod in s.updated)
    found = f"{opened} of {s.wished} replicas of revision {s.current} have passed the gate {GATE}."
    return Verdict(TRUE, "WarmedUp", found) if opened >= s.wished else Verdict(FALSE, "WarmingUp", found)


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


CONDITIONS = (
    ConditionKind(
        "Ready",
        Polarity.GOOD_WHEN_TRUE,
        "The spec is fully rolled out, and every wished replica takes traffic.",
        judge_ready,
    ),
    ConditionKind(
        "Reconciling", Polarity.BAD_WHEN_TRUE, "The operator is on its way to what is wished.", judge_reconciling
    ),
    ConditionKind("Stalled", Polarity.BAD_WHEN_TRUE, "Nothing moves on until a person acts.", judge_stalled),
    ConditionKind(
        "Available",
        Polarity.GOOD_WHEN_TRUE,
        "At least the promised number of pods takes traffic, of any revision.",
        judge_available,
    ),
    ConditionKind(
        "WarmedUp",
        Polarity.GOOD_WHEN_TRUE,
        "Every wished replica of the current revision has passed its gate.",
        judge_warmed_up,
    ),
    ConditionKind(
        "PlanAccepted",
        Polarity.GOOD_WHEN_TRUE,
        "The spec can work, as far as can be known before a pod runs.",
        judge_plan_accepted,
    ),
    ConditionKind(
        "Degraded",
        Polarity.BAD_WHEN_TRUE,
        "Replicas that have served are missing, or serve below the thresholds.",
        judge_degraded,
    ),
    ConditionKind(
        "BucketCoverage",
        Polarity.GOOD_WHEN_TRUE,
        "Every admissible batch has a bucket, and every request so far met a warm graph.",
        judge_bucket_coverage,
    ),
    ConditionKind(
        "SettingsEffective",
        Polarity.GOOD_WHEN_TRUE,
        "Every setting of the spec has an effect.",
        judge_settings_effective,
    ),
)


def judge_conditions(situation: Situation) -> tuple[Condition, ...]:
    """All conditions; a transition time moves only when the status does."""
    verdicts = [(kind.type, kind.judge(situation)) for kind in CONDITIONS]
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


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
