"""Events on the resource, derived from what a reconcile does and from how the status changes."""

from collections.abc import Iterable

from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus, GaudiInferenceStatus
from gaudi_operator.core.actions import Action, Event, SetGate


def events(before: GaudiInferenceStatus, after: GaudiInferenceStatus, actions: Iterable[Action]) -> tuple[Event, ...]:
    """What people should hear of, oldest first. An unchanged status and no gate give none."""
    return (*_failures(before, after), *_revision(before, after), *_gates(actions), *_turns(before, after))


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


def _gates(actions: Iterable[Action]) -> Iterable[Event]:
    for action in actions:
        if isinstance(action, SetGate):
            word = "GateOpened" if action.open else "GateClosed"
            yield Event("Normal" if action.open else "Warning", word, f"Pod {action.pod}: {action.message}")


def _turns(before: GaudiInferenceStatus, after: GaudiInferenceStatus) -> Iterable[Event]:
    was = {each.type: each for each in before.conditions}
    told = [event for each in after.conditions if (event := _turn(each, was.get(each.type)))]
    # Whoever is Ready has warmed up: where both happen within a moment, that is one story.
    ready = any(event.reason == "Ready" for event in told)
    return [event for event in told if not (ready and event.reason == "WarmedUp")]


def _turn(condition: Condition, was: Condition | None) -> Event | None:
    """The event of a condition that has changed; a new reason of a bad state is news too."""
    if was is not None and (was.status, was.reason) == (condition.status, condition.reason):
        return None
    match condition.type, condition.status:
        case "Ready", ConditionStatus.TRUE:
            return Event("Normal", "Ready", condition.message)
        case "WarmedUp", ConditionStatus.TRUE:
            return Event("Normal", "WarmedUp", condition.message)
        case "PlanAccepted", ConditionStatus.FALSE:
            return Event("Warning", "PlanRefused", condition.message)
        case "PlanAccepted", ConditionStatus.TRUE if condition.reason == "AcceptedInDoubt":
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
