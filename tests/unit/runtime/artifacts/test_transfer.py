"""Retries of unavailable sources, and parallel transfers in which the first failure ends the others."""

import threading
from collections.abc import Callable
from functools import partial

import pytest

from gaudi_runtime.artifacts.transfer import transfer_concurrently, transfer_with_retries


def failing(times: int, error: type[Exception] = ConnectionError) -> Callable[[], str]:
    """Return a function that raises numbered errors `times` times, and then returns a value."""
    tries = iter(range(1, times + 1))

    def ask() -> str:
        if number := next(tries, None):
            raise error(f"failure {number}")
        return "here"

    return ask


def test_retries_wait_for_each_delay_and_report_the_reason() -> None:
    waited: list[tuple[float, str]] = []
    wait = lambda seconds, why: waited.append((seconds, str(why)))  # noqa: E731
    assert transfer_with_retries(failing(2), ConnectionError, (1.0, 4.0, 9.0), wait) == "here"
    assert waited == [(1.0, "failure 1"), (4.0, "failure 2")]


def test_last_failure_is_raised_after_the_last_delay() -> None:
    with pytest.raises(ConnectionError, match="failure 3"):
        transfer_with_retries(failing(3), ConnectionError, (1.0, 4.0), lambda *_: None)


def test_error_of_another_type_is_raised_immediately() -> None:
    with pytest.raises(KeyError, match="failure 1"):
        transfer_with_retries(failing(1, KeyError), ConnectionError, (1.0,), lambda *_: None)


def test_progress_resets_the_retry_delays() -> None:
    came = iter([0, 0, 5, 5, 5, 5])
    waited: list[float] = []
    ask = failing(3)
    transfer_with_retries(
        ask, ConnectionError, (1.0, 4.0), lambda seconds, _: waited.append(seconds), lambda: next(came)
    )
    assert waited == [1.0, 1.0, 4.0]


def test_first_failure_signals_the_other_workers_and_is_raised() -> None:
    failed = threading.Event()

    def work(number: int) -> None:
        if number == 1:
            raise ConnectionError("gone")
        assert failed.wait(60)

    with pytest.raises(ConnectionError, match="gone"):
        transfer_concurrently([partial(work, number) for number in range(3)], failed, "test")


def test_failure_of_an_earlier_round_is_reset() -> None:
    failed, done = threading.Event(), []
    failed.set()
    transfer_concurrently([lambda: done.append(failed.is_set())] * 2, failed, "test")
    assert done == [False, False]
