"""A refused request is not sent again at once, and one that nobody asks for any more is forgotten."""

import pytest

from gaudi_operator.core.actions import Apply
from gaudi_operator.errors import Forbidden, Stalled, Transient
from gaudi_operator.shell.resource_worker import ResourceWorker

REFUSED = Stalled("ApiRefused", "the field is wrong")


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
    worker = ResourceWorker()
    worker.refuse(apply(1), REFUSED)
    seconds = worker.retry_seconds()
    assert seconds is not None
    assert 0 < seconds <= 2


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
    with pytest.raises(Transient, match="no rights"):
        worker.refuse(apply(1), Forbidden("ApiForbidden", "no rights"))


def test_generation_is_new_when_another_one_was_looked_at_before() -> None:
    worker = ResourceWorker()
    assert [worker.is_new(generation) for generation in (7, 7, 8, 8)] == [False, False, True, False]


async def test_pods_are_asked_when_no_news_came_in_time() -> None:
    worker = ResourceWorker(ask=True)
    await worker.pause(0.001)
    assert worker.ask


async def test_news_are_looked_at_as_they_are() -> None:
    worker = ResourceWorker(ask=True)
    worker.news.set()
    await worker.pause(60)
    assert not worker.ask
