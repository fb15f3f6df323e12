"""status.revisions: the kept revisions, newest first, each with its number, its age and where it stands."""

from gaudi_operator.api.v1alpha1.status import MAX_REVISIONS, RevisionPhase, RevisionState
from gaudi_operator.core.back_off import Record
from gaudi_operator.core.revision import Revision
from gaudi_operator.core.situation import Situation


def revision_states(situation: Situation) -> tuple[RevisionState, ...]:
    """A row per kept revision; the oldest are left out where there are more than the status holds."""
    newest = sorted(situation.revisions, key=lambda revision: revision.number, reverse=True)
    return tuple(_state(situation, revision) for revision in newest[:MAX_REVISIONS])


def _state(situation: Situation, revision: Revision) -> RevisionState:
    failure, ends = revision.failure, situation.ends.get(revision.name, Record())
    return RevisionState(
        name=revision.name,
        number=revision.number,
        phase=_phase(situation, revision),
        created=revision.created,
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
        last_error=ends.last_error,
        back_off=ends.back_off,
    )


def _phase(situation: Situation, revision: Revision) -> RevisionPhase:
    current = revision.name == situation.current
    has_pods = any(pod.revision == revision.name for pod in situation.active)
    if revision.failure:
        return RevisionPhase.FAILED if current or has_pods else RevisionPhase.ROLLED_BACK
    if current:
        return RevisionPhase.SERVING if revision.name == situation.stable else RevisionPhase.ROLLING_OUT
    return RevisionPhase.LEAVING if has_pods else RevisionPhase.KEPT
