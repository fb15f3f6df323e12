"""The rows of status.revisions."""

import pytest

from gaudi_operator.api.v1alpha1.status import MAX_REVISIONS, GaudiInferenceStatus, RevisionPhase, Revisions
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.status.status_builder import build_revision_states, throttle_status
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import serving, state_of, warming

FAILURE = Problem("WarmupStalled", "No progress in pod a.")


def revision(name: str, number: int = 1, failure: Problem | None = None) -> Revision:
    return Revision(name, number, {}, {}, "", failure, "2026-08-01T11:00:00Z")


@pytest.mark.parametrize(
    ("name", "pods", "failure", "stable", "phase"),
    [
        ("new", [serving()], None, "new", RevisionPhase.SERVING),
        ("new", [serving()], None, "old", RevisionPhase.ROLLING_OUT),
        ("old", [serving(revision="old")], None, "old", RevisionPhase.SERVING),
        ("old", [warming(revision="old"), serving()], None, "old", RevisionPhase.SCALING_DOWN),
        ("old", [serving()], None, "new", RevisionPhase.KEPT),
        ("new", [], FAILURE, "old", RevisionPhase.FAILED),
        ("old", [serving(revision="old")], FAILURE, "new", RevisionPhase.FAILED),
        ("old", [serving()], FAILURE, "new", RevisionPhase.ROLLED_BACK),
    ],
)
def test_phase_of_a_revision_depends_on_pods_failure_and_stability(
    name: str, pods: list[PodView], failure: Problem | None, stable: str, phase: RevisionPhase
) -> None:
    before = GaudiInferenceStatus(revision=Revisions(stable=stable))
    rows = build_revision_states(state_of(pods, stored=(revision(name, failure=failure),), previous_status=before))
    assert {row.name: row.phase for row in rows}[name] is phase


def test_creation_time_alone_causes_no_status_write() -> None:
    row = build_revision_states(state_of(stored=(revision("new"),)))
    fresh = GaudiInferenceStatus(revisions=row)
    shown = GaudiInferenceStatus(revisions=(row[0].model_copy(update={"created": None}),))
    assert throttle_status(shown, fresh, Observed({}, status_written_at=NOW), Deadlines(NOW)) == (shown, None)
    more = fresh.model_copy(update={"observed_generation": 2})
    assert throttle_status(shown, more, Observed({}, status_written_at=NOW), Deadlines(NOW)) == (more, None)


def test_newest_revision_is_first_and_the_oldest_are_omitted() -> None:
    rows = build_revision_states(state_of(stored=tuple(revision(f"r{number}", number) for number in range(12))))
    assert [row.number for row in rows] == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    assert len(rows) == MAX_REVISIONS


def test_failed_revision_has_reason_and_message() -> None:
    row = build_revision_states(state_of(stored=(revision("old", 3, FAILURE),)))[0]
    assert (row.name, row.number, row.created) == ("old", 3, "2026-08-01T11:00:00Z")
    assert (row.reason, row.message) == (FAILURE.reason, FAILURE.message)
