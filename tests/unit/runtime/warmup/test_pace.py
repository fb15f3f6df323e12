import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.warmup.pace import Pace, Step, StepKind

SMALL, LARGE = Bucket(1, 128, 0), Bucket(1, 256, 0)


def step(kind: StepKind, bucket: Bucket = SMALL) -> Step:
    return (kind, BucketPhase.PROMPT, bucket)


def test_nothing_measured_has_no_estimate() -> None:
    pace = Pace(block_size=128)
    pace.plan([step(StepKind.COMPILE)])
    assert pace.eta_seconds() is None


def test_steps_of_an_earlier_warmup_give_an_estimate_before_the_first_step() -> None:
    pace = Pace(block_size=128)
    pace.measured(step(StepKind.LOAD), 2.0)
    pace.measured(step(StepKind.LOAD, LARGE), 4.0)
    pace.plan([step(StepKind.LOAD), step(StepKind.LOAD, LARGE)])
    assert pace.eta_seconds() == pytest.approx(6.0)


def test_loading_a_recipe_is_not_judged_by_the_time_of_compiling_one() -> None:
    pace = Pace(block_size=128)
    pace.measured(step(StepKind.COMPILE), 60.0)
    pace.measured(step(StepKind.LOAD), 1.0)
    pace.plan([step(StepKind.LOAD), step(StepKind.LOAD)])
    assert pace.eta_seconds() == pytest.approx(2.0)


def test_expected_steps_replace_those_that_were_planned() -> None:
    pace = Pace(block_size=128)
    pace.measured(step(StepKind.CAPTURE), 2.0)
    pace.plan([step(StepKind.CAPTURE)] * 20_000)
    pace.expect(StepKind.CAPTURE, BucketPhase.PROMPT, 3, 3 * 128)
    assert pace.eta_seconds() == pytest.approx(6.0)


def test_a_step_that_is_over_counts_no_more() -> None:
    pace = Pace(block_size=128)
    pace.measured(step(StepKind.COMPILE), 3.0)
    pace.plan([step(StepKind.COMPILE), step(StepKind.CAPTURE)])
    pace.over([step(StepKind.COMPILE), step(StepKind.CAPTURE)])
    assert pace.eta_seconds() == 0


def test_bucket_is_forecast_by_three_like_it() -> None:
    pace = Pace(block_size=128)
    for seconds in (2.0, 2.0):
        pace.measured(step(StepKind.COMPILE), seconds)
    assert pace.forecast(step(StepKind.COMPILE, LARGE)) is None
    pace.measured(step(StepKind.COMPILE), 2.0)
    assert pace.forecast(step(StepKind.COMPILE, LARGE)) == pytest.approx(2.0)
    pace.measured(step(StepKind.COMPILE, LARGE), 4.0)
    assert pace.forecast(step(StepKind.COMPILE, LARGE)) == pytest.approx(4.0)
    assert pace.forecast(step(StepKind.CAPTURE)) is None
