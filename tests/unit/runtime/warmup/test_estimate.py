"""The estimate of the remaining time of a warm-up."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.warmup.estimate import (
    Estimate,
    EstimatedWork,
    EstimateSamples,
    EstimateStepKind,
    Step,
    estimate_eta_seconds,
)

POSITIVE = st.floats(0.01, 1000)
TIMED = st.lists(st.tuples(POSITIVE, POSITIVE), max_size=10)
LEFT = st.lists(POSITIVE, max_size=10)


def work(done: Sequence[tuple[float, float]], left: Sequence[float]) -> EstimatedWork:
    """Return work with completed steps `done` as (weight, seconds) and remaining steps `left` as weights."""
    samples = EstimateSamples()
    for weight, seconds in done:
        samples.add(weight, seconds)
    return EstimatedWork(samples, len(left), sum(left))


def test_estimate_without_remaining_steps_is_zero() -> None:
    assert estimate_eta_seconds([work(done=[(1, 5.0)], left=[])]) == 0


def test_estimate_without_measured_steps_is_none() -> None:
    assert estimate_eta_seconds([work(done=[], left=[1, 2])]) is None


def test_estimate_of_equal_steps_uses_their_mean() -> None:
    assert estimate_eta_seconds([work(done=[(4, 2.0), (4, 4.0)], left=[4, 4])]) == pytest.approx(6)


def test_time_that_grows_with_weight_is_extrapolated() -> None:
    done = [(1, 3.0), (2, 4.0), (3, 5.0)]
    assert estimate_eta_seconds([work(done=done, left=[10])]) == pytest.approx(12)


def test_time_that_decreases_with_weight_is_estimated_as_constant() -> None:
    assert estimate_eta_seconds([work(done=[(1, 5.0), (2, 3.0)], left=[100])]) == pytest.approx(4)


def test_extrapolation_never_makes_small_steps_negative() -> None:
    assert estimate_eta_seconds([work(done=[(10, 1.0), (20, 10.0)], left=[1])]) == pytest.approx(5.5 / 15)


def test_estimate_of_an_unmeasured_kind_uses_the_mean_of_others() -> None:
    begun = work(done=[(1, 2.0), (1, 4.0)], left=[1])
    assert estimate_eta_seconds([begun, work(done=[], left=[7, 8])]) == pytest.approx(3 + 2 * 3)


@given(st.lists(st.builds(work, TIMED, LEFT), max_size=4))
def test_estimate_is_none_or_at_least_zero(kinds: list[EstimatedWork]) -> None:
    eta = estimate_eta_seconds(kinds)
    assert eta is None or eta >= 0


@given(TIMED.filter(bool), LEFT, POSITIVE)
def test_one_more_step_never_shortens_the_estimate(
    done: list[tuple[float, float]], left: list[float], more: float
) -> None:
    shorter = estimate_eta_seconds([work(done, left)])
    longer = estimate_eta_seconds([work(done, [*left, more])])
    assert shorter is not None
    assert longer is not None
    assert longer >= shorter - 1e-9


SMALL, LARGE = Bucket(1, 128, 0), Bucket(1, 256, 0)


def step(kind: EstimateStepKind, bucket: Bucket = SMALL) -> Step:
    return (kind, BucketPhase.PROMPT, bucket)


def test_plan_without_a_measured_step_has_no_estimate() -> None:
    estimate = Estimate(block_size=128)
    estimate.add_steps([step(EstimateStepKind.COMPILE)])
    assert estimate.eta_seconds() is None


def test_earlier_measurements_are_used_before_the_first_step() -> None:
    estimate = Estimate(block_size=128)
    estimate.record_seconds(step(EstimateStepKind.LOAD), 2.0)
    estimate.record_seconds(step(EstimateStepKind.LOAD, LARGE), 4.0)
    estimate.add_steps([step(EstimateStepKind.LOAD), step(EstimateStepKind.LOAD, LARGE)])
    assert estimate.eta_seconds() == pytest.approx(6.0)


def test_loading_a_recipe_is_not_estimated_by_compile_times() -> None:
    estimate = Estimate(block_size=128)
    estimate.record_seconds(step(EstimateStepKind.COMPILE), 60.0)
    estimate.record_seconds(step(EstimateStepKind.LOAD), 1.0)
    estimate.add_steps([step(EstimateStepKind.LOAD), step(EstimateStepKind.LOAD)])
    assert estimate.eta_seconds() == pytest.approx(2.0)


def test_expected_steps_replace_planned_steps() -> None:
    estimate = Estimate(block_size=128)
    estimate.record_seconds(step(EstimateStepKind.CAPTURE), 2.0)
    estimate.add_steps([step(EstimateStepKind.CAPTURE)] * 20_000)
    estimate.set_remaining(EstimateStepKind.CAPTURE, BucketPhase.PROMPT, 3, 3 * 128)
    assert estimate.eta_seconds() == pytest.approx(6.0)


def test_completed_steps_are_removed_from_the_estimate() -> None:
    estimate = Estimate(block_size=128)
    estimate.record_seconds(step(EstimateStepKind.COMPILE), 3.0)
    estimate.add_steps([step(EstimateStepKind.COMPILE), step(EstimateStepKind.CAPTURE)])
    estimate.remove_steps([step(EstimateStepKind.COMPILE), step(EstimateStepKind.CAPTURE)])
    assert estimate.eta_seconds() == 0


def test_bucket_is_forecast_from_three_measured_buckets() -> None:
    estimate = Estimate(block_size=128)
    for seconds in (2.0, 2.0):
        estimate.record_seconds(step(EstimateStepKind.COMPILE), seconds)
    assert estimate.forecast(step(EstimateStepKind.COMPILE, LARGE)) is None
    estimate.record_seconds(step(EstimateStepKind.COMPILE), 2.0)
    assert estimate.forecast(step(EstimateStepKind.COMPILE, LARGE)) == pytest.approx(2.0)
    estimate.record_seconds(step(EstimateStepKind.COMPILE, LARGE), 4.0)
    assert estimate.forecast(step(EstimateStepKind.COMPILE, LARGE)) == pytest.approx(4.0)
    assert estimate.forecast(step(EstimateStepKind.CAPTURE)) is None
