"""Problems of a revision under observation: too many recompiles or failed requests, with the exact messages."""

from dataclasses import replace

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, Revisions
from gaudi_operator.core.gate.judgement import ADD_SIZES
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import (
    BucketPhase,
    ColdShape,
    RequestCountsReport,
    ServedTrafficReport,
    ServedVisionReport,
)
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.pod_objects import view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import problem_of, state_of

ROOM = RoomCriterion(to_come=False)
READ_LOG = "Read its log with `kubectl logs a`."


def observing(**limits: int | None) -> State:
    """Return a state whose canary is observed with `limits`. If a limit is None, the canary is not observed."""
    canary = {"observeSeconds": 0} if None in limits.values() else {"observeSeconds": 1, **limits}
    return state_of(inference=inference(rollout={"canary": canary}))


def test_stable_revision_has_no_observation_limits() -> None:
    met = view(report=report(recompiles_since_ready=11))
    proven = replace(
        observing(maxRecompiles=10), previous_status=GaudiInferenceStatus(revision=Revisions(stable=met.revision))
    )
    assert problem_of(met, proven, ROOM) is None


@pytest.mark.parametrize(
    ("recompiles", "most", "skipped", "too_many"),
    [(11, 10, False, True), (10, 10, False, False), (11, None, False, False), (11, 10, True, False)],
)
def test_recompiles_of_an_observed_revision_are_a_problem(
    recompiles: int, most: int | None, skipped: bool, too_many: bool
) -> None:
    met = view(report=report(recompiles_since_ready=recompiles, warmup_skipped=skipped))
    found = problem_of(met, observing(maxRecompiles=most), ROOM)
    assert (found is not None and found.reason == "TooManyRecompiles") is too_many


def test_recompiles_name_the_most_frequent_shape() -> None:
    rare = ColdShape(phase=BucketPhase.DECODE, shape=(9, 1, 9), count=1)
    often = ColdShape(phase=BucketPhase.PROMPT, shape=(1, 128, 0), count=10)
    met = view(report=report(recompiles_since_ready=11, cold_shapes=(rare, often)))
    assert problem_of(met, observing(maxRecompiles=10), ROOM) == Problem(
        "TooManyRecompiles",
        "Requests waited for 11 compiles in pod a, most often prompt (1, 128, 0), but "
        "spec.rollout.canary.maxRecompiles is 10. Add buckets for these shapes to spec.bucketing.",
    )


def test_recompiles_without_known_shapes_are_reported_as_a_count() -> None:
    found = problem_of(view(report=report(recompiles_since_ready=11)), observing(maxRecompiles=10), ROOM)
    assert found is not None
    assert found.reason == "TooManyRecompiles"
    assert "11 compiles in pod a, but spec.rollout.canary.maxRecompiles is 10." in found.message


def test_recompiles_of_images_cause_the_advice_to_add_sizes() -> None:
    seen = report(
        recompiles_since_ready=11, served=ServedTrafficReport(vision=ServedVisionReport(misses=11, recompiles=11))
    )
    found = problem_of(view(report=seen), observing(maxRecompiles=10), ROOM)
    assert found is not None
    assert found.message.endswith(ADD_SIZES)


def test_failing_requests_are_reported_with_limit_and_log() -> None:
    met = view(report=report(requests=RequestCountsReport(answered=100, failed=6)))
    found = "6 of 100 answers of pod a failed, but spec.rollout.canary.maxErrorPercent is 5."
    assert problem_of(met, observing(maxErrorPercent=5), ROOM) == Problem("TooManyErrors", f"{found} {READ_LOG}", found)


@pytest.mark.parametrize(
    ("failed", "answered", "most", "too_many"),
    [(6, 100, 5, True), (5, 100, 5, False), (4, 4, 5, False), (5, 5, 5, True), (5, 900, 0, True), (9, 9, None, False)],
)
def test_failing_requests_of_an_observed_revision_are_a_problem(
    failed: int, answered: int, most: int | None, too_many: bool
) -> None:
    met = view(report=report(requests=RequestCountsReport(answered=answered, failed=failed)))
    found = problem_of(met, observing(maxErrorPercent=most), ROOM)
    assert (found is not None and found.reason == "TooManyErrors") is too_many
