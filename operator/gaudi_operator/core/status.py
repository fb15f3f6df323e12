"""The status of a resource, from what one pass has found out."""

from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.api.v1alpha1.status import MAX_PODS, GaudiInferenceStatus, PodState, Revisions
from gaudi_operator.core import progress
from gaudi_operator.core.conditions import judge_conditions
from gaudi_operator.core.history import revision_states
from gaudi_operator.core.manifests.metadata import traffic_labels
from gaudi_operator.core.manifests.service import endpoint
from gaudi_operator.core.plan_state import plan_state
from gaudi_operator.core.pod_states import pod_states
from gaudi_operator.core.recipes import recipe_cache
from gaudi_operator.core.rollout_conditions import judge_ready
from gaudi_operator.core.situation import Situation

PROGRESS_SECONDS = 2.0
"""Figures of a warm-up move at most this often; conditions, phases and counts of replicas at once."""

_FIGURES = ("captured_percent", "buckets", "warmup", "memory", "recompiles", "pods")


def make_status(situation: Situation) -> GaudiInferenceStatus:
    """The status to show now."""
    rows = pod_states(situation)
    return GaudiInferenceStatus(
        observed_generation=situation.inference.identity.generation,
        phase=_phase(situation),
        ready=f"{len(situation.serving)}/{situation.wished}",
        conditions=judge_conditions(situation),
        replicas=len(situation.active),
        updated_replicas=len(situation.updated),
        ready_replicas=len(situation.serving),
        available_replicas=len(situation.serving),
        selector=",".join(f"{key}={value}" for key, value in traffic_labels(situation.inference).items()),
        revision=Revisions(current=situation.current, previous=situation.previous, stable=situation.stable),
        revisions=revision_states(situation),
        endpoint=endpoint(situation.inference) if situation.current else None,
        plan=plan_state(situation),
        recipe_cache=recipe_cache(situation),
        pods=rows[:MAX_PODS],
        **_figures(situation, rows),
    )


def _figures(situation: Situation, rows: tuple[PodState, ...]) -> dict[str, Any]:
    """Figures over the pods that percentages speak of. While none of those has reported, the written ones stay."""
    pods = progress.basis(situation)
    names = {pod.name for pod in pods}
    mine = [row for row in rows if row.name in names]
    reports = [pod.report for pod in pods if pod.report]
    written = situation.before
    figures: dict[str, Any] = {
        "captured_percent": progress.least_captured(mine),
        "warmup": progress.warmup(situation, rows),
        "buckets": progress.buckets(reports),
        "memory": progress.memory(reports),
        "recompiles": progress.recompiles([row for row in rows if row.ready], reports),
        "simulated": any(report.simulated for report in reports),
    }
    if pods and not reports:
        figures |= {key: getattr(written, key) for key in ("buckets", "memory", "recompiles", "simulated")}
    return figures


def _phase(situation: Situation) -> str:
    ready = judge_ready(situation)
    if situation.problem and situation.problem.reason == "RolledBack":
        return "RolledBack"
    if situation.violation or situation.problem:
        return "Stalled"
    if ready.reason in ("ScaledToZero", "Serving"):
        return ready.reason
    if situation.old:
        return "RollingOut"
    started = any(pod.container and pod.container.running for pod in situation.updated)
    return "WarmingUp" if started else "Pending"


def throttled(
    before: GaudiInferenceStatus, fresh: GaudiInferenceStatus, written: datetime | None, now: datetime
) -> tuple[GaudiInferenceStatus, float | None]:
    """`fresh`, or `before` when only figures have moved and the last write is too young; seconds until it is not."""
    if fresh == before or written is None or _standing(fresh) != _standing(before):
        return fresh, None
    left = (written + timedelta(seconds=PROGRESS_SECONDS) - now).total_seconds()
    return (fresh, None) if left <= 0 else (before, left)


def _standing(status: GaudiInferenceStatus) -> tuple[object, ...]:
    """All that is written at once. When a revision was made is known a moment later: that may wait."""
    revisions = tuple(row.model_copy(update={"created": None}) for row in status.revisions)
    pods = sorted((pod.name, pod.revision, pod.gate, pod.ready) for pod in status.pods)
    return status.model_copy(update={**dict.fromkeys(_FIGURES), "revisions": revisions}), pods
