"""What `kubectl gaudi rollout status` makes of a resource: rolled out, given up, or still on its way; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gaudi_operator.api.v1alpha1.resource import SINGULAR
from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus, GaudiInferenceStatus, RevisionPhase
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_identity, read_status
from gaudi_operator.core.rollout.revision import Revision

GIVEN_UP = (RevisionPhase.FAILED, RevisionPhase.ROLLED_BACK)


class Outcome(Enum):
    """Where a rollout stands."""

    WAITING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True)
class Verdict:
    """An outcome with its sentence, and the figures of a progress bar.

    `percent` is the warm-up of the least advanced pod of the current revision, `ready` reads 1/2.
    """

    outcome: Outcome
    sentence: str
    phase: str
    percent: int
    ready: str


def judge(resource: Manifest, stored: Sequence[Revision]) -> Verdict:
    """`stored` are the kept revisions, which tell whether the operator has seen what an annotation asks for."""
    status = read_status(resource)
    outcome, sentence = _outcome(resource, status, stored)
    percent = 100 if outcome is Outcome.DONE else status.warmup.percent if status.warmup else 0
    return Verdict(outcome, sentence, status.phase, percent, status.ready)


def _outcome(resource: Manifest, status: GaudiInferenceStatus, stored: Sequence[Revision]) -> tuple[Outcome, str]:
    name, conditions = f'{SINGULAR} "{resource["metadata"]["name"]}"', {each.type: each for each in status.conditions}
    if not _observed(resource, status, stored):
        return Outcome.WAITING, f"Waiting for the spec of {name} to be observed..."
    if _is_true(conditions.get("Ready")):
        return Outcome.DONE, f"{name} successfully rolled out"
    stalled, ready = conditions.get("Stalled"), conditions.get("Ready")
    if stalled is not None and _is_true(stalled):
        return Outcome.FAILED, f"{name} stopped ({stalled.reason}): {stalled.message}"
    message = ready.message if ready else "nothing is known of it yet"
    if ready and ready.reason == "RollingBack":
        # Why is told once, by the condition Stalled at the end; it would be told again with every pod.
        return Outcome.WAITING, f"{name} is rolled back: {message.partition('. ')[0]}"
    return Outcome.WAITING, f"Waiting for {name} rollout to finish: {message}"


def _observed(resource: Manifest, status: GaudiInferenceStatus, stored: Sequence[Revision]) -> bool:
    """Whether the status speaks of the spec as it is.

    The generation tells of fields. A restart is asked for by an annotation, and another try of a failed revision by
    the lack of one: of both the status speaks once its revisions do.
    """
    if status.observed_generation < resource["metadata"]["generation"]:
        return False
    if _refused(status) or (resource["spec"].get("rollout") or {}).get("revision"):
        return True
    asked, phases = read_identity(resource).restarted_at, {each.name: each.phase for each in status.revisions}
    desired = [each for each in stored if each.inputs.get("restartedAt") == asked]
    return any(
        each.name == status.revision.current or (each.failure is not None and phases.get(each.name) in GIVEN_UP)
        for each in desired
    )


def _refused(status: GaudiInferenceStatus) -> bool:
    """A refused spec makes no revision that could be looked for."""
    return any(each.type == "PlanAccepted" and each.status is ConditionStatus.FALSE for each in status.conditions)


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.status is ConditionStatus.TRUE
