"""Available, WarmedUp and Degraded: what the pods give now, compared with what was promised (docs/conditions.md)."""

from datetime import datetime, timedelta

from gaudi_operator.core.gate import SETTLE_SECONDS
from gaudi_operator.core.names import GATE
from gaudi_operator.core.pods import PodView
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.slow_bucket import slow_bucket
from gaudi_operator.core.verdict import FALSE, TRUE, UNKNOWN, Verdict


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
    if opened >= s.wished:
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
