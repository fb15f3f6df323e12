"""What a rank does of the work of an engine that spans pods."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gaudi_runtime.engines.protocol import Meeting, Progress
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.group.follow import do, follow
from gaudi_runtime.group.messages import Verb
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.http.report_board import ReportBoard
from gaudi_runtime.process.signals import Signals
from tests.unit.runtime.configs import free_port, sim_config

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


async def test_connection_that_the_leader_ends_is_a_lost_engine() -> None:
    config = sim_config(serving={"group_port": free_port()})
    signals = cast("Signals", SimpleNamespace(stop=asyncio.Event(), closing=False))
    left = asyncio.Event()

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What the kernel does for a leader that has read all and ends."""
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(leave, port=config.serving.group_port):
        with pytest.raises(EngineLost) as lost:
            await follow(config, Topology(1, 2, "127.0.0.1"), ReportBoard("0" * 64), signals, lambda: Part())
        await left.wait()
    assert str(lost.value) == "The leader of this group is gone: its process has ended."
