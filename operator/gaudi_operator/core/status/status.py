"""The status of a resource, from what one reconcile has found out.

Its figures are over the pods that percentages speak of; `status.revisions` has the kept revisions, newest first, each
with its number, its age and where it stands. A resource whose spec this operator cannot read gets a status that says
so, and nothing is touched.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gaudi_operator.api.v1alpha1.status import (
    MAX_PODS,
    MAX_REVISIONS,
    Condition,
    ConditionStatus,
    GaudiInferenceStatus,
    PodState,
    RevisionPhase,
    Revisions,
    RevisionStatus,
)
from gaudi_operator.core.admission.class_limits import most_replicas
from gaudi_operator.core.children.network import endpoint
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.rendering.metadata import traffic_labels
from gaudi_operator.core.resource import read_identity
from gaudi_operator.core.rollout.backoff import FailureRecord
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status import figures
from gaudi_operator.core.status.conditions import (
    conditions_from,
    expected_ready,
    is_paused,
    judge_autoscaler_active,
    judge_available,
    judge_degraded,
    judge_ready,
    judge_reconciling,
    judge_stalled,
    judge_warmed_up,
)
from gaudi_operator.core.status.plan import (
    judge_bucket_coverage,
    judge_class_applied,
    judge_plan_accepted,
    judge_settings_effective,
    plan_state,
)
from gaudi_operator.core.status.pods import pod_states
from gaudi_operator.core.status.recipes import recipe_cache
from gaudi_operator.core.status.verdict import FALSE, TRUE, Verdict


@dataclass(frozen=True)
class ConditionKind:
    """A row of the table; `good` is the status that asks for nobody. A judgement of None leaves the condition out."""

    type: str
    good: ConditionStatus
    meaning: str
    judge: Callable[[State], Verdict | None]


CONDITIONS = (
    ConditionKind("Ready", TRUE, "The spec is fully rolled out, and every desired replica takes traffic.", judge_ready),
    ConditionKind("Reconciling", FALSE, "The operator is on its way to what is desired.", judge_reconciling),
    ConditionKind("Stalled", FALSE, "Nothing moves on until a person acts.", judge_stalled),
    ConditionKind(
        "Available",
        TRUE,
        "At least one pod, and at least the promised number, takes traffic, of any revision.",
        judge_available,
    ),
    ConditionKind(
        "WarmedUp", TRUE, "Every desired replica of the current revision has passed its gate.", judge_warmed_up
    ),
    ConditionKind(
        "PlanAccepted", TRUE, "The spec can work, as far as can be known before a pod runs.", judge_plan_accepted
    ),
    ConditionKind(
        "Degraded", FALSE, "Replicas that took traffic are lost, or serve below the thresholds.", judge_degraded
    ),
    ConditionKind(
        "BucketCoverage",
        TRUE,
        "Every admissible batch has a bucket, and every request so far met a warm graph.",
        judge_bucket_coverage,
    ),
    ConditionKind("SettingsEffective", TRUE, "Every setting of the spec has an effect.", judge_settings_effective),
    ConditionKind(
        "ClassApplied",
        TRUE,
        "The current revision has the present defaults of its class. Only there with a class.",
        judge_class_applied,
    ),
    ConditionKind(
        "AutoscalerActive",
        TRUE,
        "The autoscaler counts requests and may scale. Only there with spec.autoscaling.",
        judge_autoscaler_active,
    ),
)


def judge_conditions(state: State) -> tuple[Condition, ...]:
    """All conditions; a transition time moves only when the status does."""
    judged = ((kind.type, kind.judge(state)) for kind in CONDITIONS)
    verdicts = [(kind, verdict) for kind, verdict in judged if verdict is not None]
    return conditions_from(verdicts, state.before.conditions, state.inference.identity.generation, state.deadlines.now)


MOVES_SECONDS, MANY_PODS_SECONDS, PODS_A_SECOND = 2.0, 5.0, 4
"""A change of the status waits so long for what follows, so that both are one write: a container that starts, its gate,
and that it is ready. The status of many pods is long and changes all the time, so it waits longer.
"""

HEARD_SECONDS = 10.0
"""An operator that has just started waits so long for the first report of every pod that runs: otherwise each of its
starts would write the status of every resource twice.
"""


def moves_within(pods: int) -> float:
    """Seconds in which what moves in the status of a resource with so many pods is shown, as one write."""
    return max(MOVES_SECONDS, min(pods / PODS_A_SECOND, MANY_PODS_SECONDS))


def make_status(state: State) -> GaudiInferenceStatus:
    """The status to show now."""
    rows = pod_states(state)
    return GaudiInferenceStatus(
        observed_generation=state.inference.identity.generation,
        phase=_phase(state),
        ready=f"{len(state.serving)}/{state.desired}",
        conditions=judge_conditions(state),
        replicas=len(state.active),
        updated_replicas=len(state.updated),
        ready_replicas=len(state.serving),
        expected_ready_replicas=expected_ready(state),
        most_replicas=_most_replicas(state),
        selector=",".join(f"{key}={value}" for key, value in traffic_labels(state.inference).items()),
        revision=Revisions(current=state.current, previous=_previous(state), stable=state.stable),
        revisions=revision_states(state),
        endpoint=endpoint(state.inference) if state.current else None,
        plan=plan_state(state),
        recipe_cache=recipe_cache(state),
        pods=rows[:MAX_PODS],
        **_figures(state, rows),
    )


def _most_replicas(state: State) -> int | None:
    """What the API server holds the scale subresource to (api/door.py), which says nothing of the class."""
    says, current = state.platform.says, state.rollout.current
    return most_replicas(current, says.limits) if says and current else None


def _figures(state: State, rows: tuple[PodState, ...]) -> dict[str, Any]:
    """Figures over the pods that percentages speak of. While none of those has reported, the written ones stay."""
    pods = figures.basis(state)
    names = {pod.name for pod in pods}
    mine = [row for row in rows if row.name in names]
    reports = [pod.report for pod in pods if pod.report]
    written = state.before
    found: dict[str, Any] = {
        "captured_percent": figures.least_captured(mine),
        "warmup": figures.warmup(state, rows),
        "buckets": figures.buckets(reports),
        "memory": figures.memory(reports),
        "recompiles": figures.recompiles(
            [row for row in rows if row.ready], [pod.report for pod in state.serving if pod.report]
        ),
        "simulated": any(report.simulated for report in reports),
    }
    # A new leader has no reports yet: zeros would look like a loss of all graphs.
    if pods and not reports:
        found |= {key: getattr(written, key) for key in ("buckets", "memory", "recompiles", "simulated")}
    return found


def _phase(state: State) -> str:
    ready = judge_ready(state)
    if state.problem and state.problem.reason == "RolledBack":
        return "RolledBack"
    if state.stalls:
        # A person must act for the spec, and not for the model: that serves wholly.
        return "SpecRefused" if state.violation and len(state.serving) >= state.desired else "Stalled"
    if ready.reason in ("ScaledToZero", "Serving"):
        return ready.reason
    if is_paused(state):
        return "Paused"
    if state.old:
        return "RollingOut"
    started = any(pod.container and pod.container.running for pod in state.updated)
    return "WarmingUp" if started else "Pending"


def throttled(
    before: GaudiInferenceStatus,
    fresh: GaudiInferenceStatus,
    observed: Observed,
    deadlines: Deadlines,
    *,
    heard: bool = True,
) -> tuple[GaudiInferenceStatus, datetime | None]:
    """Return `fresh` and None, or `before` and since when a change waits for more of it. `heard` is whether all running
    pods have reported since this process started.

    Three things do not wait: whether the resource is Ready, the answer to a change of the spec, and what later
    reconciles build on. The date of a revision comes with the next write.
    """
    if _remembered(fresh) != _remembered(before) or _is_ready(fresh) != _is_ready(before):
        return fresh, None
    if _undated(fresh) == _undated(before):
        return before, None
    unheard = observed.status_written is None and not heard
    seconds = HEARD_SECONDS if unheard else moves_within(len(observed.pods))
    since = observed.status_held or deadlines.now
    return (fresh, None) if deadlines.reached(since, seconds) else (before, since)


def all_heard(state: State) -> bool:
    """Whether every replica that runs has said something since this process started."""
    return all(pod.received for pod in state.active if pod.container and pod.container.running)


def _is_ready(status: GaudiInferenceStatus) -> bool:
    return any(each.type == "Ready" and each.status == TRUE for each in status.conditions)


def _remembered(status: GaudiInferenceStatus) -> tuple[object, ...]:
    """What later reconciles build on."""
    return status.observed_generation, status.revision, _undated(status).revisions


def _undated(status: GaudiInferenceStatus) -> GaudiInferenceStatus:
    """Without when revisions were made: that may wait."""
    # The API server sets it while the ControllerRevision is made, so it would cost each rollout one more write.
    revisions = tuple(row.model_copy(update={"created": None}) for row in status.revisions)
    return status.model_copy(update={"revisions": revisions})


def _previous(state: State) -> str | None:
    """The newest older revision that has pods, otherwise the one that was desired before the current one."""
    with_pods = {pod.revision for pod in state.old}
    if found := next((each.name for each in state.stored if each.name in with_pods), None):
        return found
    written = state.before.revision
    return written.current if written.current not in (None, state.current) else written.previous


def revision_states(state: State) -> tuple[RevisionStatus, ...]:
    """A row per kept revision; the oldest are left out where there are more than the status holds."""
    newest = sorted(state.revisions, key=lambda revision: revision.number, reverse=True)
    return tuple(_state(state, revision) for revision in newest[:MAX_REVISIONS])


def _state(state: State, revision: Revision) -> RevisionStatus:
    failure, remembered = revision.failure, state.failures.get(revision.name, FailureRecord())
    return RevisionStatus(
        name=revision.name,
        number=revision.number,
        phase=_revision_phase(state, revision),
        created=revision.created,
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
        last_error=remembered.last_error,
        back_off=remembered.back_off,
    )


def _revision_phase(state: State, revision: Revision) -> RevisionPhase:
    current = revision.name == state.current
    has_pods = any(pod.revision == revision.name for pod in state.active)
    if revision.failure:
        return RevisionPhase.FAILED if current or has_pods else RevisionPhase.ROLLED_BACK
    if current:
        return RevisionPhase.SERVING if revision.name == state.stable else RevisionPhase.ROLLING_OUT
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
    # What pods do is still true while their spec cannot be read.
    kept = {each.type: Verdict(each.status, each.reason, each.message) for each in before.conditions}
    conditions = conditions_from((kept | verdicts).items(), before.conditions, generation, observed.now)
    return before.model_copy(update={"observed_generation": generation, "phase": "Stalled", "conditions": conditions})
