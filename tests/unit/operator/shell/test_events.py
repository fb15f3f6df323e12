"""Events are published after one another, a repeated one as a series, and none of them holds anything up."""

from collections.abc import AsyncIterator

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Event
from gaudi_operator.shell.client import Answer
from gaudi_operator.shell.events import SERIES_SECONDS, Publisher
from tests.kube_api import until
from tests.unit.operator.shell.memory import Memory
from tests.world.api import Object
from tests.world.clock import moment

STARTED = Event("Normal", "RolloutStarted", "revision b")


class Publishing:
    """A publisher, what it has published, and its clock."""

    def __init__(self) -> None:
        """Nothing is published."""
        self.memory, self.seconds = Memory(), 0.0
        self.resource = self.memory.resource()
        clock = Clock(now=lambda: moment(self.seconds), monotonic=lambda: self.seconds)
        self.publisher = Publisher(self.memory.cluster, "operator-1", clock)

    def events(self) -> list[Object]:
        """What stands in the cluster."""
        return self.memory.api.kind("Event")

    async def publish(self, *events: Event) -> list[Object]:
        """Publish, and wait until as many requests as events have been answered."""
        before = len(self.memory.asked)
        for event in events:
            self.publisher.publish(self.resource, event)

        async def answered() -> bool:
            return len(self.memory.asked) >= before + len(events)

        await until(answered, "the events to be published", every=0)
        return self.events()


@pytest.fixture
async def publishing() -> AsyncIterator[Publishing]:
    made = Publishing()
    async with made.publisher:
        yield made


async def test_event_is_on_its_resource(publishing: Publishing) -> None:
    [event] = await publishing.publish(STARTED)
    assert event["regarding"]["uid"] == publishing.resource["metadata"]["uid"]
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "RolloutStarted", "revision b")
    assert event["eventTime"] == "2026-08-01T12:00:00.000000Z"


async def test_repeated_event_becomes_a_series(publishing: Publishing) -> None:
    [event] = await publishing.publish(STARTED, STARTED, STARTED)
    assert event["series"]["count"] == 3


async def test_other_event_stands_by_itself(publishing: Publishing) -> None:
    assert len(await publishing.publish(STARTED, Event("Normal", "RolloutStarted", "revision c"))) == 2


async def test_event_of_long_ago_is_not_continued(publishing: Publishing) -> None:
    await publishing.publish(STARTED)
    publishing.seconds += SERIES_SECONDS
    assert len(await publishing.publish(STARTED)) == 2


async def test_series_that_somebody_has_deleted_begins_anew(publishing: Publishing) -> None:
    [event] = await publishing.publish(STARTED)
    publishing.memory.api.remove("Event", event["metadata"]["name"])
    publishing.publisher.publish(publishing.resource, STARTED)

    async def again() -> list[Object]:
        return publishing.events()

    assert "series" not in (await until(again, "a new event", every=0))[0]


async def test_long_note_is_cut_in_bytes(publishing: Publishing) -> None:
    [event] = await publishing.publish(Event("Warning", "Stalled", "\N{SNOWMAN}" * 1000))
    assert event["note"] == "\N{SNOWMAN}" * 333


async def test_event_that_is_refused_costs_no_other(publishing: Publishing) -> None:
    publishing.memory.answers = [Answer(422, b"{}")]
    [event] = await publishing.publish(Event("Normal", "Refused", "x"), STARTED)
    assert event["reason"] == "RolloutStarted"


async def test_long_names_fit_an_event() -> None:
    made = Publishing()
    long = "n" * 253
    made.resource = {**made.resource, "metadata": {**made.resource["metadata"], "name": long}}
    made.publisher = Publisher(made.memory.cluster, "p" * 300)
    async with made.publisher:
        [event] = await made.publish(STARTED)
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["reportingInstance"]) == 128
