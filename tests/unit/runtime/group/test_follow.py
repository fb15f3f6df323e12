"""What a rank does of the work of an engine that spans pods."""

from collections.abc import Mapping
from typing import Any

from gaudi_runtime.engines.protocol import Meeting, Progress
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.group.follow import do
from gaudi_runtime.group.messages import Verb

HERE = "10.0.0.7"


class Part:
    """Keeps where it was ordered to join."""

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


def test_pod_of_engine_that_spans_pods_only_starts_its_part() -> None:
    """What the leader's engine does afterwards reaches its processes without us."""
    part = Part()
    orders: list[tuple[Verb, list[Any]]] = [(Verb.LOAD, [HERE, 4567]), (Verb.SERVE, [])]
    answers = [do(part, verb, arguments, lambda: None) for verb, arguments in orders]
    assert (part.joined, answers) == ([Meeting(HERE, 4567)], [None, None])
