"""A refused request is not sent again at once, and one that nobody asks for any more is forgotten."""

from dataclasses import dataclass

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Apply
from gaudi_operator.errors import Forbidden, Stalled, Transient
from gaudi_operator.shell.reconciling.resource_worker import RIGHTS_DEADLINE_SECONDS, ResourceWorker
from tests.world.loop import Loop

REFUSED = Stalled("ApiRefused", "the field is wrong")


FORBIDDEN = Forbidden("ApiForbidden", "no rights")


@dataclass
class Time:
    """The seconds of a worker."""

    seconds: float = 0.0

    def worker(self) -> ResourceWorker:
        return ResourceWorker(clock=Clock(monotonic=lambda: self.seconds))


def apply(port: int) -> Apply:
    return Apply({"kind": "Service", "metadata": {"name": "tiny"}, "spec": {"port": port}}, "it does not exist")


def test_refused_action_is_held_back() -> None:
    worker = ResourceWorker()
    worker.refuse(apply(1), REFUSED)
    assert worker.refusal(apply(1)) is REFUSED


def test_changed_action_is_tried_at_once() -> None:
    worker = ResourceWorker()
    worker.refuse(apply(1), REFUSED)
    assert worker.refusal(apply(2)) is None


def test_refusal_ends_by_itself() -> None:
    time = Time()
    worker = time.worker()
    worker.refuse(apply(1), REFUSED)
    time.seconds += worker.retry_seconds() or 0.0
    assert worker.refusal(apply(1)) is None


def test_refusals_grow_rarer() -> None:
    worker = ResourceWorker()
    for _ in range(12):
        worker.refuse(apply(1), REFUSED)
    seconds = worker.retry_seconds()
    assert seconds is not None
    assert 30 <= seconds <= 60


def test_refusal_of_what_is_no_longer_desired_is_forgotten() -> None:
    worker = ResourceWorker()
    worker.refuse(apply(1), REFUSED)
    worker.expect(())
    assert worker.retry_seconds() is None


def test_accepted_action_leaves_nothing_behind() -> None:
    worker = ResourceWorker()
    worker.refuse(apply(1), REFUSED)
    worker.accept(apply(1))
    assert worker.retry_seconds() is None


def test_missing_rights_are_not_believed_at_once() -> None:
    worker = ResourceWorker()
    with pytest.raises(Transient):
        worker.refuse(apply(1), FORBIDDEN)


def test_missing_rights_are_believed_after_their_deadline() -> None:
    time = Time()
    worker = time.worker()
    with pytest.raises(Transient):
        worker.refuse(apply(1), FORBIDDEN)
    time.seconds += RIGHTS_DEADLINE_SECONDS
    worker.refuse(apply(1), FORBIDDEN)
    assert worker.refusal(apply(1)) is FORBIDDEN


def pause(worker: ResourceWorker, seconds: float) -> float:
    """How many seconds of an own clock a pause takes."""
    loop = Loop()
    loop.run_until_complete(worker.pause(seconds))
    loop.close()
    return loop.time()


def test_pause_ends_when_no_news_came_in_time() -> None:
    assert pause(ResourceWorker(), 60) == 60


def test_news_end_the_pause() -> None:
    worker = ResourceWorker()
    worker.news.set()
    assert pause(worker, 60) == 0
