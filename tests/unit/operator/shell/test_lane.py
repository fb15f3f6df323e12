"""A refused request is not sent again at once, and one that nobody asks for any more is forgotten."""

import pytest

from gaudi_operator.core.actions import Apply
from gaudi_operator.errors import Forbidden, Stalled, Transient
from gaudi_operator.shell.lane import Lane

REFUSED = Stalled("ApiRefused", "the field is wrong")


def apply(port: int) -> Apply:
    return Apply({"kind": "Service", "metadata": {"name": "tiny"}, "spec": {"port": port}}, "it does not exist")


def test_refused_action_is_held_back() -> None:
    lane = Lane()
    lane.refuse(apply(1), REFUSED)
    assert lane.refusal(apply(1)) is REFUSED


def test_changed_action_is_tried_at_once() -> None:
    lane = Lane()
    lane.refuse(apply(1), REFUSED)
    assert lane.refusal(apply(2)) is None


def test_refusal_ends_by_itself() -> None:
    lane = Lane()
    lane.refuse(apply(1), REFUSED)
    seconds = lane.retry_seconds()
    assert seconds is not None
    assert 0 < seconds <= 2


def test_refusals_grow_rarer() -> None:
    lane = Lane()
    for _ in range(12):
        lane.refuse(apply(1), REFUSED)
    seconds = lane.retry_seconds()
    assert seconds is not None
    assert 30 <= seconds <= 60


def test_refusal_of_what_is_no_longer_wished_is_forgotten() -> None:
    lane = Lane()
    lane.refuse(apply(1), REFUSED)
    lane.expect(())
    assert lane.retry_seconds() is None


def test_accepted_action_leaves_nothing_behind() -> None:
    lane = Lane()
    lane.refuse(apply(1), REFUSED)
    lane.accept(apply(1))
    assert lane.retry_seconds() is None


def test_missing_rights_are_not_believed_at_once() -> None:
    lane = Lane()
    with pytest.raises(Transient, match="no rights"):
        lane.refuse(apply(1), Forbidden("ApiForbidden", "no rights"))


def test_generation_is_new_when_another_one_was_looked_at_before() -> None:
    lane = Lane()
    assert [lane.is_new(generation) for generation in (7, 7, 8, 8)] == [False, False, True, False]


async def test_pods_are_asked_when_no_news_came_in_time() -> None:
    lane = Lane(ask=True)
    await lane.pause(0.001)
    assert lane.ask


async def test_news_are_looked_at_as_they_are() -> None:
    lane = Lane(ask=True)
    lane.news.set()
    await lane.pause(60)
    assert not lane.ask
