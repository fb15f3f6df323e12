"""The other pods as an engine that spans pods sees them, and what they do of its work."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, cast

import pytest

from gaudi_runtime.engines.protocol import Meeting, Progress
from gaudi_runtime.errors import EngineLost, ModelNotFound, RankFailed
from gaudi_runtime.group.follow import Rank
from gaudi_runtime.group.gathering import OtherPods
from gaudi_runtime.group.members import Members
from gaudi_runtime.group.messages import Verb, Word, failure_of

HERE = "10.0.0.7"


class Connections:
    """Stands for Members: rank 2 joins at the third look."""

    def __init__(self) -> None:
        self.missed = iter([[1, 2], [2], []])
        self.told: list[tuple[Verb, tuple[object, ...]]] = []
        self.answers: dict[int, Future[Word]] = {1: Future(), 2: Future()}
        self.moves = 4

    def missing(self, seconds: float) -> list[int]:
        return next(self.missed)

    def address(self) -> str:
        return HERE

    def tell(self, verb: Verb, *arguments: object) -> dict[int, Future[Word]]:
        self.told.append((verb, arguments))
        return self.answers


class Part:
    """Keeps where it was told to join."""

    def __init__(self) -> None:
        self.joined: list[Meeting] = []

    def report_fields(self) -> Mapping[str, object]:
        return {}

    def recipe_key(self) -> None:
        return None

    def join(self, meeting: Meeting, progress: Progress) -> None:
        self.joined.append(meeting)

    async def until_lost(self) -> EngineLost:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def others(connections: Connections, waits: list[list[int]] | None = None) -> OtherPods:
    said: list[list[int]] = [] if waits is None else waits
    return OtherPods(cast("Members", connections), said.append)


def test_start_waits_for_every_pod_and_says_for_which() -> None:
    connections, waits, moved = Connections(), list[list[int]](), list[int]()
    others(connections, waits).start(lambda: moved.append(1))
    assert (waits, len(moved)) == ([[1, 2], [2], []], 2)


def test_every_pod_is_told_where_to_meet() -> None:
    connections = Connections()
    meeting = others(connections).start(lambda: None)
    assert meeting.address == HERE
    assert connections.told == [(Verb.LOAD, tuple(meeting))]


def test_pod_that_cannot_start_is_named_with_its_reason() -> None:
    connections = Connections()
    pods = others(connections)
    pods.start(lambda: None)
    pods.raise_if_failed()
    connections.answers[2].set_result(Word(done=Verb.LOAD, failure=failure_of(ModelNotFound("/models is empty."))))
    with pytest.raises(RankFailed, match=r"^Rank 2: /models is empty\.$") as failed:
        pods.raise_if_failed()
    assert failed.value.reason == "ModelNotFound"


def test_pod_that_is_lost_while_it_starts_ends_the_start() -> None:
    connections = Connections()
    pods = others(connections)
    pods.start(lambda: None)
    connections.answers[1].set_exception(EngineLost("Rank 1 of this group is lost."))
    with pytest.raises(EngineLost):
        pods.raise_if_failed()


def test_pod_of_an_engine_that_spans_pods_only_starts_its_part() -> None:
    """What the leader's engine does afterwards reaches its processes without us."""
    part = Part()
    rank = Rank(lambda: part, lambda: None)
    answers: list[Any] = [rank.do(Verb.LOAD, [HERE, 4567]), rank.do(Verb.SERVE, [])]
    assert (part.joined, answers) == ([Meeting(HERE, 4567)], [None, None])
