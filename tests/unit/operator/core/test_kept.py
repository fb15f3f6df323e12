"""Answers that are kept: each worked out once, refusals too, and never more of them than their bytes allow."""

import threading

import pytest

from gaudi_operator.core.admission.plans import Answers
from gaudi_runtime.errors import PlanImpossible

ASKED: list[str] = []


def answer(key: str, answers: Answers[str], size: int = 1) -> str:
    def work() -> str:
        ASKED.append(key)
        if key.startswith("bad"):
            raise PlanImpossible(f"{key} is impossible")
        return key.upper()

    return answers.get(key, work, lambda _: size)


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    ASKED.clear()


def test_answer_is_worked_out_once() -> None:
    answers = Answers[str](10)
    assert [answer("good", answers) for _ in range(3)] == ["GOOD"] * 3
    assert ASKED == ["good"]


def test_refusal_is_worked_out_once_and_raised_each_time() -> None:
    answers = Answers[str](10)
    for _ in range(3):
        with pytest.raises(PlanImpossible, match="bad is impossible"):
            answer("bad", answers)
    assert ASKED == ["bad"]


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    answers = Answers[str](3)
    for key in ("a", "b", "c", "a", "d", "a", "c", "d"):
        answer(key, answers)
    assert ASKED == ["a", "b", "c", "d"]
    answer("b", answers)
    assert ASKED[4:] == ["b"]


def test_one_large_answer_takes_the_place_of_all_others() -> None:
    answers = Answers[str](3)
    for key, size in (("a", 1), ("large", 5), ("large", 5), ("a", 1)):
        answer(key, answers, size)
    assert ASKED == ["a", "large", "a"]


def test_kept_answer_does_not_wait_for_work_on_another() -> None:
    answers, working, ended = Answers[str](10), threading.Event(), threading.Event()
    answer("known", answers)

    def work() -> str:
        working.set()
        assert ended.wait(30)
        return "late"

    thread = threading.Thread(target=answers.get, args=("slow", work, lambda _: 1))
    thread.start()
    assert working.wait(30)
    assert answer("known", answers) == "KNOWN"
    ended.set()
    thread.join()
    assert ASKED == ["known"]


def test_one_answer_is_worked_out_at_a_time() -> None:
    answers, at_once, most = Answers[str](10), threading.Semaphore(1), []

    def work() -> str:
        most.append(at_once.acquire(blocking=False))
        # Long enough for the others to come in, if anything let them.
        threading.Event().wait(0.02)
        at_once.release()
        return "done"

    threads = [threading.Thread(target=answers.get, args=(key, work, lambda _: 1)) for key in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [True] * 8
