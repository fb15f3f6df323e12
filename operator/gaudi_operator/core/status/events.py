"""Events on the resource, derived from the actions of a reconcile and the changes of its status.

Changes at the same time are combined into one event. The event WarmedUp includes the last gate that opened. The event
Ready includes WarmedUp if the two conditions change together. If gates of a revision open one after the other, only the
first gate has an event, and the status counts the other gates.
"""

from collections.abc import Iterable, Sequence

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus, GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Event, SetGate
from gaudi_operator.core.gate.condition import gate_message
from gaudi_operator.core.gate.judgement import WARMED_UP
from gaudi_operator.core.pods.view import PodView


def reconcile_events(
    before: GaudiInferenceStatus,
    after: GaudiInferenceStatus,
    actions: Iterable[Action],
    updated: Sequence[PodView] = (),
    desired: int = 0,
) -> tuple[Event, ...]:
    """Return the events of a reconcile, oldest first, or no events if neither the status nor a gate changes.

    `updated` are the pods of the current revision with the state after `actions`. `desired` is the desired number of
    these pods.
    """
    # If all gates are open, publish no event for a single gate. The event WarmedUp, which may be delayed with the
    # status write, includes the last gate.
    all_open = 0 < desired <= sum(pod.is_gate_open for pod in updated) and not _has_warmed_up(before)
    sent = [each for each in actions if isinstance(each, SetGate)]
    opened = {each.uid for each in sent if each.open}
    others_open = any(pod.is_gate_open and pod.uid not in opened for pod in updated)
    gates = (each for each in sent if not (each.open and (all_open or (others_open and _is_first_opening(each)))))
    return (
        *_failure_events(before, after),
        *_revision_events(before, after),
        *_gate_events(gates),
        *_condition_events(before, after, updated),
    )


def _is_first_opening(gate: SetGate) -> bool:
    """Return True if a gate write opens the gate of a fully warmed-up pod for the first time."""
    return gate.reason == WARMED_UP and not gate.again


def _has_warmed_up(status: GaudiInferenceStatus) -> bool:
    return any(each.type == "WarmedUp" and each.status is ConditionStatus.TRUE for each in status.conditions)


def _failure_events(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    known = {(each.name, each.reason) for each in before.revisions}
    for each in after.revisions:
        if each.reason is not None and (each.name, each.reason) not in known:
            yield Event("Warning", "RevisionFailed", f"Revision {each.name} failed ({each.reason}): {each.message}")


def _revision_events(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    current = after.revision.current
    if current is None or current == before.revision.current:
        return
    if any(_failure_events(before, after)):
        yield Event("Normal", "RollingBack", f"The operator rolls back to revision {current}.")
    else:
        yield Event("Normal", "RevisionDesired", f"The operator rolls out revision {current}.")


def _gate_events(gates: Iterable[SetGate]) -> Iterable[Event]:
    for gate in gates:
        word = "GateOpened" if gate.open else "GateClosed"
        yield Event("Normal" if gate.open else "Warning", word, f"Pod {gate.pod}: {gate.message}")


def _condition_events(
    before: GaudiInferenceStatus, after: GaudiInferenceStatus, updated: Iterable[PodView]
) -> Iterable[Event]:
    was = {each.type: each for each in before.conditions}
    gate = _describe_last_gate(updated) if _has_warmed_up(after) and not _has_warmed_up(before) else ""
    turns = [event for each in after.conditions if (event := _condition_event(each, was.get(each.type), gate))]
    # Ready implies WarmedUp. If both conditions change together, publish only the event for Ready.
    ready = any(event.reason == "Ready" for event in turns)
    return [event for event in turns if not (ready and event.reason == "WarmedUp")]


def _cause(condition: Condition) -> tuple[str, ...]:
    """Return the parts of a condition that identify its cause.

    Messages are not included, because they contain numbers that change with the progress of pods. Only the message of a
    refused spec is included.
    """
    refused = condition.type == "PlanAccepted" and condition.status is ConditionStatus.FALSE
    return (condition.status, condition.reason, *([condition.message] if refused else []))


def _describe_last_gate(pods: Iterable[PodView]) -> str:
    """Return a sentence about the captured graphs of the pod whose gate opened last, to append to a message."""
    opened = {(since, pod.name): pod for pod in pods if (since := pod.open_since)}
    return f" Pod {opened[max(opened)].name}: {gate_message(opened[max(opened)])}" if opened else ""


def _condition_event(condition: Condition, was: Condition | None, gate: str) -> Event | None:
    """Return the event of a changed condition. If a bad status gets a new reason, this is also an event."""
    if was is not None and _cause(was) == _cause(condition):
        return None
    match condition.type, condition.status:
        case "Ready", ConditionStatus.TRUE:
            return Event("Normal", "Ready", condition.message + gate)
        case "WarmedUp", ConditionStatus.TRUE:
            return Event("Normal", "WarmedUp", condition.message + gate)
        # If PlanAccepted is False because of CapturedBelowThreshold, the plan was not refused. The condition Stalled
        # reports the missed thresholds.
        case "PlanAccepted", ConditionStatus.FALSE if condition.reason != "CapturedBelowThreshold":
            return Event("Warning", "PlanRefused", condition.message)
        case "PlanAccepted", ConditionStatus.UNKNOWN if condition.reason == "AcceptedAgainstEstimate":
            return Event("Warning", "PlanAgainstEstimate", condition.message)
        case "Stalled", ConditionStatus.TRUE:
            return Event("Warning", "Stalled", f"{condition.reason}: {condition.message}")
        case "Degraded", ConditionStatus.TRUE:
            return Event("Warning", "Degraded", condition.message)
        case "BucketCoverage" | "AutoscalerActive", ConditionStatus.FALSE:
            return Event("Warning", condition.reason, condition.message)
        case "SettingsEffective", ConditionStatus.FALSE:
            return Event("Warning", "SettingsIgnored", condition.message)
    return None
