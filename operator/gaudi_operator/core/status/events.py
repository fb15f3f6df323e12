"""Events on the resource, derived from the actions of a reconcile and the changes of its status.

Changes at the same time are combined into one event. The event WarmedUp includes the last gate that opened. The event
Ready includes WarmedUp if the two conditions change together. If gates of a revision open one after the other, only the
first gate has an event, and the status counts the other gates.
"""

from collections.abc import Collection, Iterable, Sequence

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus, GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Event, SetGate
from gaudi_operator.core.gate.condition import gate_condition_message
from gaudi_operator.core.gate.judgement import FEWER_GRAPHS, WARMED_UP
from gaudi_operator.core.pods.pod_view import PodView


def status_events(
    before: GaudiInferenceStatus,
    after: GaudiInferenceStatus,
    actions: Iterable[Action],
    updated_pods: Sequence[PodView] = (),
    desired_replicas: int = 0,
) -> tuple[Event, ...]:
    """Return the events of a reconcile, oldest first, or no events if neither the status nor a gate changes.

    `updated_pods` are the pods of the current revision with the state after `actions`. `desired_replicas` is the
    desired number of these pods.
    """
    # If all gates are open, publish no event for a single gate. The event WarmedUp, which may be delayed with the
    # status write, includes the last gate.
    all_open = 0 < desired_replicas <= sum(pod.is_gate_open for pod in updated_pods) and not _has_warmed_up(before)
    gate_writes = [action for action in actions if isinstance(action, SetGate)]
    opened_uids = {gate.uid for gate in gate_writes if gate.open}
    others_open = any(pod.is_gate_open and pod.uid not in opened_uids for pod in updated_pods)
    gates = (
        gate for gate in gate_writes if not (gate.open and (all_open or (others_open and _is_first_opening(gate))))
    )
    fewer_graphs = {pod.uid for pod in updated_pods if pod.gate and pod.gate.reason == FEWER_GRAPHS}
    return (
        *_failure_events(before, after),
        *_revision_events(before, after),
        *_fewer_graphs_events(gate_writes, fewer_graphs),
        *_gate_events(gates),
        *_condition_events(before, after, updated_pods),
    )


def _is_first_opening(gate: SetGate) -> bool:
    """Return True if a gate write opens the gate of a pod with a complete warm-up for the first time."""
    return gate.reason in (WARMED_UP, FEWER_GRAPHS) and not gate.is_rewrite


def _has_warmed_up(status: GaudiInferenceStatus) -> bool:
    return any(
        condition.type == "WarmedUp" and condition.status is ConditionStatus.TRUE for condition in status.conditions
    )


def _failure_events(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    previous_failures = {(revision.name, revision.reason) for revision in before.revisions}
    for revision in after.revisions:
        if revision.reason is not None and (revision.name, revision.reason) not in previous_failures:
            yield Event(
                "Warning", "RevisionFailed", f"Revision {revision.name} failed ({revision.reason}): {revision.message}"
            )


def _revision_events(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    revision_name = after.revision.current
    if revision_name is None or revision_name == before.revision.current:
        return
    if any(_failure_events(before, after)):
        yield Event("Normal", "RollingBack", f"The operator rolls back to revision {revision_name}.")
    else:
        yield Event("Normal", "RevisionDesired", f"The operator rolls out revision {revision_name}.")


def _fewer_graphs_events(gates: Iterable[SetGate], uids: Collection[str]) -> Iterable[Event]:
    """Yield an event for the first pod of the current revision that serves with fewer graphs than planned.

    `uids` are the pods of the current revision with fewer graphs.
    """
    opened = [gate for gate in gates if gate.uid in uids]
    if opened and len(opened) == len(uids):
        yield Event("Normal", FEWER_GRAPHS, f"Pod {opened[0].pod}: {opened[0].message}")


def _gate_events(gates: Iterable[SetGate]) -> Iterable[Event]:
    for gate in gates:
        reason = "GateOpened" if gate.open else "GateClosed"
        yield Event("Normal" if gate.open else "Warning", reason, f"Pod {gate.pod}: {gate.message}")


def _condition_events(
    before: GaudiInferenceStatus, after: GaudiInferenceStatus, updated_pods: Iterable[PodView]
) -> Iterable[Event]:
    previous_conditions = {condition.type: condition for condition in before.conditions}
    gate_sentence = _describe_last_gate(updated_pods) if _has_warmed_up(after) and not _has_warmed_up(before) else ""
    events = [
        event
        for condition in after.conditions
        if (event := _condition_event(condition, previous_conditions.get(condition.type), gate_sentence))
    ]
    # Ready implies WarmedUp. If both conditions change together, publish only the event for Ready.
    has_ready_event = any(event.reason == "Ready" for event in events)
    return [event for event in events if not (has_ready_event and event.reason == "WarmedUp")]


def _cause(condition: Condition) -> tuple[str, ...]:
    """Return the parts of a condition that identify its cause.

    Messages are not included, because they contain numbers that change with the progress of pods. Only the message of a
    refused spec is included.
    """
    is_refused = condition.type == "PlanAccepted" and condition.status is ConditionStatus.FALSE
    return (condition.status, condition.reason, *([condition.message] if is_refused else []))


def _describe_last_gate(pods: Iterable[PodView]) -> str:
    """Return a sentence about the captured graphs of the pod whose gate opened last, to append to a message."""
    by_time = {(opened_at, pod.name): pod for pod in pods if (opened_at := pod.open_since)}
    return f" Pod {by_time[max(by_time)].name}: {gate_condition_message(by_time[max(by_time)])}" if by_time else ""


def _condition_event(condition: Condition, previous: Condition | None, gate_sentence: str) -> Event | None:
    """Return the event of a changed condition. If a bad status gets a new reason, this is also an event."""
    if previous is not None and _cause(previous) == _cause(condition):
        return None
    match condition.type, condition.status:
        case "Ready", ConditionStatus.TRUE:
            return Event("Normal", "Ready", condition.message + gate_sentence)
        case "WarmedUp", ConditionStatus.TRUE:
            return Event("Normal", "WarmedUp", condition.message + gate_sentence)
        # If PlanAccepted is False because of CapturedBelowThreshold, the plan was not refused. The condition Stalled
        # reports the missed thresholds.
        case "PlanAccepted", ConditionStatus.FALSE if condition.reason != "CapturedBelowThreshold":
            return Event("Warning", "PlanRefused", condition.message)
        case "Stalled", ConditionStatus.TRUE:
            return Event("Warning", "Stalled", f"{condition.reason}: {condition.message}")
        case "Degraded", ConditionStatus.TRUE:
            return Event("Warning", "Degraded", condition.message)
        case "BucketCoverage" | "AutoscalerActive", ConditionStatus.FALSE:
            return Event("Warning", condition.reason, condition.message)
        case "SettingsEffective", ConditionStatus.FALSE:
            return Event("Warning", "SettingsIgnored", condition.message)
    return None
