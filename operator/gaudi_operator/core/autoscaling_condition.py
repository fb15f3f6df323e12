"""AutoscalerActive: whether the autoscaler of spec.autoscaling counts and may scale (docs/scaling.md)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from gaudi_operator.core.manifests.horizontal_pod_autoscaler import METRIC
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.situation import Situation
from gaudi_operator.core.verdict import FALSE, TRUE, UNKNOWN, Verdict

NEW_KIND_SECONDS = 60
"""The controller manager learns of a new CustomResourceDefinition within 30 s, and an autoscaler looks every 15 s."""

_NO_METRIC = (
    f"A metrics adapter must serve the metric {METRIC} of the pods (docs/scaling.md, Autoscale); until then replicas "
    "stay as they are."
)


def judge_autoscaler_active(s: Situation) -> Verdict | None:
    """What the HorizontalPodAutoscaler says of itself; None where none is wished."""
    wished = s.inference.spec.autoscaling
    if wished is None:
        return None
    if s.wished == 0:
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
    between = f"{wished.min_replicas} to {wished.max_replicas}"
    return Verdict(TRUE, "Counting", f"The autoscaler wishes {status.get('desiredReplicas')} of {between} replicas.")


def learning_seconds(autoscaler: Manifest | None, now: datetime) -> float | None:
    """Seconds for which FailedGetScale still means that the cluster is new; None where it does not, or is not said."""
    conditions: Iterable[Mapping[str, Any]] = ((autoscaler or {}).get("status") or {}).get("conditions") or ()
    for each in conditions:
        if (each["type"], each["status"], each.get("reason")) == ("AbleToScale", "False", "FailedGetScale"):
            left = NEW_KIND_SECONDS - (now - datetime.fromisoformat(each["lastTransitionTime"])).total_seconds()
            return left if left > 0 else None
    return None


def _hindered(condition: Mapping[str, Any]) -> Verdict:
    reason, message = condition.get("reason") or "NotActive", str(condition.get("message") or "It says no reason")
    sentence = f"The autoscaler does not scale: {message.strip().rstrip('.')}."
    return Verdict(FALSE, reason, f"{sentence} {_NO_METRIC}" if "Metric" in reason else sentence)
