"""Events on the resource, derived from what a reconcile does and from how the status changes.

What happens within a moment is one story, and one event: the gate that completes the replicas of a revision is part
of WarmedUp, which is part of Ready where both come together. Of the gates of a revision that open one after the other
the first is told, those between it and the last are counted in the status: a hundred replicas are no hundred events.
"""

from collections.abc import Iterable, Sequence

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus, GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Event, SetGate
from gaudi_operator.core.gate.condition import judged_counts
from gaudi_operator.core.gate.judgement import WARMED_UP
from gaudi_operator.core.pods.view import PodView


def events(
    before: GaudiInferenceStatus,
    after: GaudiInferenceStatus,
    actions: Iterable[Action],
    updated: Sequence[PodView] = (),
    desired: int = 0,
) -> tuple[Event, ...]:
    """What people should know, oldest first. An unchanged status and no gate give none.

    `updated` are the pods of the current revision as they are once `actions` are done, `desired` says how many of them
    there are to be.
    """
    # The status that says so may be held back for a moment: the gates that led to it are part of it.
    all_open = 0 < desired <= sum(pod.gate_open for pod in updated) and not _has_warmed_up(before)
    sent = [each for each in actions if isinstance(each, SetGate)]
    opened = {each.uid for each in sent if each.open}
    others_open = any(pod.gate_open and pod.uid not in opened for pod in updated)
    gates = (each for each in sent if not (each.open and (all_open or (others_open and _is_usual(each)))))
    return (*_failures(before, after), *_revision(before, after), *_gates(gates), *_turns(before, after, updated))


def _is_usual(gate: SetGate) -> bool:
    """Whether a pod has warmed up for the first time, and wholly."""
    return gate.reason == WARMED_UP and not gate.again


def _has_warmed_up(status: GaudiInferenceStatus) -> bool:
    return any(each.type == "WarmedUp" and each.status is ConditionStatus.TRUE for each in status.conditions)


def _failures(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    known = {(each.name, each.reason) for each in before.revisions}
    for each in after.revisions:
        if each.reason is not None and (each.name, each.reason) not in known:
            yield Event("Warning", "RevisionFailed", f"Revision {each.name} failed ({each.reason}): {each.message}")


def _revision(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    current = after.revision.current
    if current is None or current == before.revision.current:
        return
    if any(_failures(before, after)):
        yield Event("Normal", "RollingBack", f"Revision {current} is to serve again.")
    else:
        yield Event("Normal", "RevisionDesired", f"Revision {current} is to be rolled out.")


def _gates(gates: Iterable[SetGate]) -> Iterable[Event]:
    for gate in gates:
        word = "GateOpened" if gate.open else "GateClosed"
        yield Event("Normal" if gate.open else "Warning", word, f"Pod {gate.pod}: {gate.message}")


def _turns(before: GaudiInferenceStatus, after: GaudiInferenceStatus, updated: Iterable[PodView]) -> Iterable[Event]:
    was = {each.type: each for each in before.conditions}
    gate = _last_gate(updated) if _has_warmed_up(after) and not _has_warmed_up(before) else ""
    turns = [event for each in after.conditions if (event := _turn(each, was.get(each.type), gate))]
    # Whoever is Ready has warmed up: where both happen within a moment, that is one story.
    ready = any(event.reason == "Ready" for event in turns)
    return [event for event in turns if not (ready and event.reason == "WarmedUp")]


def _last_gate(pods: Iterable[PodView]) -> str:
    """What was found at the gate that opened last, to be added to a sentence."""
    opened = {(since, pod.name): pod for pod in pods if (since := pod.open_since)}
    return f" Pod {opened[max(opened)].name}: {judged_counts(opened[max(opened)])}" if opened else ""


def _turn(condition: Condition, was: Condition | None, gate: str) -> Event | None:
    """The event of a condition that has changed; a new reason of a bad state is news too."""
    if was is not None and (was.status, was.reason) == (condition.status, condition.reason):
        return None
    match condition.type, condition.status:
        case "Ready", ConditionStatus.TRUE:
            return Event("Normal", "Ready", condition.message + gate)
        case "WarmedUp", ConditionStatus.TRUE:
            return Event("Normal", "WarmedUp", condition.message + gate)
        # Thresholds that a pod has missed refuse nothing, and the condition Stalled reports them.
        case "PlanAccepted", ConditionStatus.FALSE if condition.reason != "CapturedBelowThreshold":
            return Event("Warning", "PlanRefused", condition.message)
        case "PlanAccepted", ConditionStatus.UNKNOWN if condition.reason == "AcceptedInDoubt":
            return Event("Warning", "PlanInDoubt", condition.message)
        case "Stalled", ConditionStatus.TRUE:
            return Event("Warning", "Stalled", f"{condition.reason}: {condition.message}")
        case "Degraded", ConditionStatus.TRUE:
            return Event("Warning", "Degraded", condition.message)
        case "BucketCoverage" | "AutoscalerActive", ConditionStatus.FALSE:
            return Event("Warning", condition.reason, condition.message)
        case "SettingsEffective", ConditionStatus.FALSE:
            return Event("Warning", "SettingsIgnored", condition.message)
    return None
