"""Retry delays grow to their limit and are randomized."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.retry_delays import ExponentialRetryDelays


@given(failures=st.integers(0, 2000))
def test_delay_stays_within_its_step_and_the_limit(failures: int) -> None:
    step = min(30.0, 0.25 * 2.0 ** min(failures, 30))
    assert step / 2 <= ExponentialRetryDelays(0.25, 30.0, failures).next() <= step


def test_delays_are_random() -> None:
    assert len({ExponentialRetryDelays(1.0, 1.0).next() for _ in range(50)}) > 40


def test_success_resets_the_delay() -> None:
    backoff = ExponentialRetryDelays(1.0, 100.0, failures=5)
    backoff.reset()
    assert backoff.next() <= 1.0
