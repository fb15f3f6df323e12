from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.warmup.estimate import Samples, Work, eta_seconds

POSITIVE = st.floats(0.01, 1000)
TIMED = st.lists(st.tuples(POSITIVE, POSITIVE), max_size=10)
LEFT = st.lists(POSITIVE, max_size=10)


def work(done: Sequence[tuple[float, float]], left: Sequence[float]) -> Work:
    """Steps done as (weight, seconds), and the weights of those to come."""
    samples = Samples()
    for weight, seconds in done:
        samples.add(weight, seconds)
    return Work(samples, len(left), sum(left))


def test_nothing_left_takes_no_time() -> None:
    assert eta_seconds([work(done=[(1, 5.0)], left=[])]) == 0


def test_nothing_measured_has_no_estimate() -> None:
    assert eta_seconds([work(done=[], left=[1, 2])]) is None


def test_equal_steps_take_their_mean() -> None:
    assert eta_seconds([work(done=[(4, 2.0), (4, 4.0)], left=[4, 4])]) == pytest.approx(6)


def test_time_that_grows_with_weight_is_extrapolated() -> None:
    done = [(1, 3.0), (2, 4.0), (3, 5.0)]
    assert eta_seconds([work(done=done, left=[10])]) == pytest.approx(12)


def test_time_that_falls_with_weight_counts_as_constant() -> None:
    assert eta_seconds([work(done=[(1, 5.0), (2, 3.0)], left=[100])]) == pytest.approx(4)


def test_steep_times_never_make_small_steps_negative() -> None:
    assert eta_seconds([work(done=[(10, 1.0), (20, 10.0)], left=[1])]) == pytest.approx(5.5 / 15)


def test_kind_not_begun_costs_the_mean_of_the_others() -> None:
    begun = work(done=[(1, 2.0), (1, 4.0)], left=[1])
    assert eta_seconds([begun, work(done=[], left=[7, 8])]) == pytest.approx(3 + 2 * 3)


@given(st.lists(st.builds(work, TIMED, LEFT), max_size=4))
def test_estimate_is_none_or_at_least_zero(kinds: list[Work]) -> None:
    eta = eta_seconds(kinds)
    assert eta is None or eta >= 0


@given(TIMED.filter(bool), LEFT, POSITIVE)
def test_one_more_step_never_shortens_the_estimate(
    done: list[tuple[float, float]], left: list[float], more: float
) -> None:
    shorter = eta_seconds([work(done, left)])
    longer = eta_seconds([work(done, [*left, more])])
    assert shorter is not None
    assert longer is not None
    assert longer >= shorter - 1e-9
