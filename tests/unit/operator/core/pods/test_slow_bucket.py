"""Slow buckets during warm-up: the operator names a bucket that takes far longer than its forecast."""

from datetime import timedelta

import pytest

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.slow_bucket import describe_slow_bucket
from gaudi_operator.core.status.conditions import judge_warmed_up
from gaudi_operator.core.status.pods import pod_states
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import state_of

SENTENCE = (
    "Prompt bucket (1, 128, 0) takes more than 80 s in phase Compiling, but similar buckets take 20.0 s (an estimate)."
)


def compiling(still: float, forecast: float | None = 20.0, phase: Phase = Phase.COMPILING) -> PodView:
    """Return a pod that reported, one second ago, that its current bucket has taken `still` seconds."""
    at = PhaseProgressReport(planned=8, warmed=3, current=(1, 128, 0), forecast_seconds=forecast)
    return view(pod(revision="new"), report(phase, prompt=at, since_progress_seconds=still))


@pytest.mark.parametrize(
    ("still", "forecast", "slow"), [(79.1, 20, True), (78.9, 20, False), (29.1, 1, True), (28.9, 1, False)]
)
def test_bucket_is_slow_at_four_times_forecast_and_thirty_seconds(still: float, forecast: float, slow: bool) -> None:
    assert (describe_slow_bucket(compiling(still, forecast), Deadlines(NOW)) is not None) is slow


def test_bucket_without_a_forecast_is_never_slow() -> None:
    assert describe_slow_bucket(compiling(1e6, None), Deadlines(NOW)) is None


def test_serving_pod_has_no_bucket_in_progress() -> None:
    assert describe_slow_bucket(compiling(1e6, phase=Phase.SERVING), Deadlines(NOW)) is None


def test_message_names_the_bucket_and_is_independent_of_time() -> None:
    slow = compiling(90)
    assert (
        describe_slow_bucket(slow, Deadlines(NOW))
        == describe_slow_bucket(slow, Deadlines(NOW + timedelta(hours=1)))
        == SENTENCE
    )


def test_slow_bucket_is_in_the_pod_status_and_condition() -> None:
    found = state_of([compiling(90)], desired=1)
    assert pod_states(found)[0].message == SENTENCE
    assert judge_warmed_up(found).message.endswith(f"the readiness gate; 1 pod is warming up. Pod a: {SENTENCE}")


def test_reconcile_is_scheduled_when_a_bucket_becomes_slow() -> None:
    early, late = Deadlines(NOW), Deadlines(NOW)
    describe_slow_bucket(compiling(50), early)
    describe_slow_bucket(compiling(90), late)
    assert early.requeue_after == pytest.approx(29.1)
    assert late.requeue_after is None
