"""The status of a resource, from what one pass has found out.

Its figures are over the pods that percentages speak of; `status.revisions` has the kept revisions, newest first, each
with its number, its age and where it stands. A resource whose spec this operator cannot read gets a status that says
so, and nothing is touched.
"""

from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.api.v1alpha1.status import (
    MAX_PODS,
    MAX_REVISIONS,
    GaudiInferenceStatus,
    PodState,
    RevisionPhase,
    Revisions,
    RevisionState,
)
from gaudi_operator.core.children.manifests.metadata import traffic_labels
from gaudi_operator.core.children.manifests.service import endpoint
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.resource import read_identity
from gaudi_operator.core.rollout.backoff import Record
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.status import figures
from gaudi_operator.core.status.conditions import conditions_from, judge_conditions, judge_ready
from gaudi_operator.core.status.plan import plan_state
from gaudi_operator.core.status.pods import pod_states
from gaudi_operator.core.status.recipes import recipe_cache
from gaudi_operator.core.status.situation import FALSE, TRUE, Situation, Verdict

PROGRESS_SECONDS = 2.0
"""Figures of a warm-up move at most this often; conditions, phases and counts of replicas at once."""

_FIGURES = ("captured_percent", "buckets", "warmup", "memory", "recompiles", "pods")


def make_status(situation: Situation) -> GaudiInferenceStatus:
    """The status to show now."""
    rows = pod_states(situation)
    return GaudiInferenceStatus(
        observed_generation=situation.inference.identity.generation,
        phase=_phase(situation),
        ready=f"{len(situation.serving)}/{situation.desired}",
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
    pods = figures.basis(situation)
    names = {pod.name for pod in pods}
    mine = [row for row in rows if row.name in names]
    reports = [pod.report for pod in pods if pod.report]
    written = situation.before
    found: dict[str, Any] = {
        "captured_percent": figures.least_captured(mine),
        "warmup": figures.warmup(situation, rows),
        "buckets": figures.buckets(reports),
        "memory": figures.memory(reports),
        "recompiles": figures.recompiles([row for row in rows if row.ready], reports),
        "simulated": any(report.simulated for report in reports),
    }
    if pods and not reports:
        found |= {key: getattr(written, key) for key in ("buckets", "memory", "recompiles", "simulated")}
    return found


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


def revision_states(situation: Situation) -> tuple[RevisionState, ...]:
    """A row per kept revision; the oldest are left out where there are more than the status holds."""
    newest = sorted(situation.revisions, key=lambda revision: revision.number, reverse=True)
    return tuple(_state(situation, revision) for revision in newest[:MAX_REVISIONS])


def _state(situation: Situation, revision: Revision) -> RevisionState:
    failure, ends = revision.failure, situation.ends.get(revision.name, Record())
    return RevisionState(
        name=revision.name,
        number=revision.number,
        phase=_revision_phase(situation, revision),
        created=revision.created,
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
        last_error=ends.last_error,
        back_off=ends.back_off,
    )


def _revision_phase(situation: Situation, revision: Revision) -> RevisionPhase:
    current = revision.name == situation.current
    has_pods = any(pod.revision == revision.name for pod in situation.active)
    if revision.failure:
        return RevisionPhase.FAILED if current or has_pods else RevisionPhase.ROLLED_BACK
    if current:
        return RevisionPhase.SERVING if revision.name == situation.stable else RevisionPhase.ROLLING_OUT
    return RevisionPhase.LEAVING if has_pods else RevisionPhase.KEPT


REASON = "SpecUnreadable"


def unreadable_status(observed: Observed, before: GaudiInferenceStatus, sentence: str) -> GaudiInferenceStatus:
    """`before` with the conditions that say so; what was last known of the pods stays."""
    generation = read_identity(observed.resource).generation
    verdicts = {
        "Ready": Verdict(FALSE, REASON, sentence),
        "Reconciling": Verdict(FALSE, "Stalled", "Nothing moves on by itself; the condition Stalled says why."),
        "Stalled": Verdict(TRUE, REASON, sentence),
        "PlanAccepted": Verdict(FALSE, REASON, sentence),
    }
    kept = {each.type: Verdict(each.status, each.reason, each.message) for each in before.conditions}
    conditions = conditions_from((kept | verdicts).items(), before.conditions, generation, observed.now)
    return before.model_copy(update={"observed_generation": generation, "phase": "Stalled", "conditions": conditions})
