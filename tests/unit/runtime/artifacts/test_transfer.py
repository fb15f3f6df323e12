"""What is away is asked for again, and the first failure of many ends the others."""

import threading
from collections.abc import Callable
from functools import partial

import pytest

from gaudi_runtime.artifacts.transfer import all_at_once, persistently


def failing(times: int, error: type[Exception] = ConnectionError) -> Callable[[], str]:
    """Answers after some failures, which are numbered."""
    tries = iter(range(1, times + 1))

    def ask() -> str:
        if number := next(tries, None):
            raise error(f"failure {number}")
        return "here"

    return ask


def test_it_is_asked_again_after_each_pause_with_the_reason() -> None:
    waited: list[tuple[float, str]] = []
    wait = lambda seconds, why: waited.append((seconds, str(why)))  # noqa: E731
    assert persistently(failing(2), ConnectionError, (1.0, 4.0, 9.0), wait) == "here"
    assert waited == [(1.0, "failure 1"), (4.0, "failure 2")]


def test_the_last_failure_is_raised_once_no_pause_is_left() -> None:
    with pytest.raises(ConnectionError, match="failure 3"):
        persistently(failing(3), ConnectionError, (1.0, 4.0), lambda *_: None)


def test_another_failure_is_raised_at_once() -> None:
    with pytest.raises(KeyError, match="failure 1"):
        persistently(failing(1, KeyError), ConnectionError, (1.0,), lambda *_: None)


def test_pauses_begin_anew_whenever_something_came() -> None:
    came = iter([0, 0, 5, 5, 5, 5])
    waited: list[float] = []
    ask = failing(3)
    persistently(ask, ConnectionError, (1.0, 4.0), lambda seconds, _: waited.append(seconds), lambda: next(came))
    assert waited == [1.0, 1.0, 4.0]


def test_the_first_failure_ends_the_others() -> None:
    failed = threading.Event()

    def work(number: int) -> None:
        if number == 1:
            raise ConnectionError("gone")
        assert failed.wait(60)

    with pytest.raises(ConnectionError, match="gone"):
        all_at_once([partial(work, number) for number in range(3)], failed, "test")


def test_a_failure_of_an_earlier_round_ends_nothing() -> None:
    failed, done = threading.Event(), []
    failed.set()
    all_at_once([lambda: done.append(failed.is_set())] * 2, failed, "test")
    assert done == [False, False]
