"""Events are published one at a time and do not block other work. Repeated events become a series."""

from collections.abc import AsyncIterator, Iterator

import pytest

from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Event
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.writing.event_writer import BURST, SERIES_SECONDS, EventPublisher
from tests.support.kube_api import until
from tests.unit.operator.shell.memory import Memory
from tests.world.api import Object
from tests.world.clock import moment
from tests.world.loop import Loop

STARTED = Event("Normal", "RolloutStarted", "revision b")


class Publishing:
    """A publisher with its published events and its clock."""

    def __init__(self) -> None:
        """Create a publisher without events."""
        self.memory, self.seconds = Memory(), 0.0
        self.resource = self.memory.resource()
        clock = Clock(now=lambda: moment(self.seconds), monotonic=lambda: self.seconds)
        self.publisher = EventPublisher(self.memory.cluster, "operator-1", clock)

    def events(self) -> list[Object]:
        """The events in the cluster."""
        return self.memory.api.kind("Event")

    async def publish(self, *events: Event) -> list[Object]:
        """Publish events, wait until a request for each event has been answered, and return all events."""
        before = len(self.memory.requests)
        for event in events:
            self.publisher.publish(self.resource, event)

        async def answered() -> bool:
            return len(self.memory.requests) >= before + len(events)

        await until(answered, "the events to be published", every=0)
        return self.events()


@pytest.fixture
async def publishing() -> AsyncIterator[Publishing]:
    made = Publishing()
    async with made.publisher:
        yield made


async def test_event_refers_to_its_resource(publishing: Publishing) -> None:
    [event] = await publishing.publish(STARTED)
    assert event["regarding"]["uid"] == publishing.resource["metadata"]["uid"]
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "RolloutStarted", "revision b")
    assert event["eventTime"] == "2026-08-01T12:00:00.000000Z"


async def test_repeated_event_becomes_a_series(publishing: Publishing) -> None:
    [event] = await publishing.publish(STARTED, STARTED, STARTED)
    assert event["series"]["count"] == 3


async def test_different_event_starts_a_new_series(publishing: Publishing) -> None:
    assert len(await publishing.publish(STARTED, Event("Normal", "RolloutStarted", "revision c"))) == 2


async def test_old_event_is_not_continued(publishing: Publishing) -> None:
    await publishing.publish(STARTED)
    publishing.seconds += SERIES_SECONDS
    assert len(await publishing.publish(STARTED)) == 2


async def test_deleted_series_starts_again(publishing: Publishing) -> None:
    [event] = await publishing.publish(STARTED)
    publishing.memory.api.remove("Event", event["metadata"]["name"])
    publishing.publisher.publish(publishing.resource, STARTED)

    async def again() -> list[Object]:
        return publishing.events()

    assert "series" not in (await until(again, "a new event", every=0))[0]


async def test_note_has_no_control_characters(publishing: Publishing) -> None:
    [event] = await publishing.publish(Event("Warning", "Stalled", "\x1b[2Jgone"))
    assert event["note"] == "\\x1b[2Jgone"


async def test_long_note_is_truncated_by_bytes(publishing: Publishing) -> None:
    [event] = await publishing.publish(Event("Warning", "Stalled", "\N{SNOWMAN}" * 1000))
    assert event["note"] == "\N{SNOWMAN}" * 333


async def test_refused_event_does_not_affect_others(publishing: Publishing) -> None:
    publishing.memory.answers = [ApiClientResponse(422, b"{}")]
    [event] = await publishing.publish(Event("Normal", "Refused", "x"), STARTED)
    assert event["reason"] == "RolloutStarted"


class Flooded:
    """A publisher with simulated time and two resources: one has an event, the other has a flood of events."""

    def __init__(self) -> None:
        """Start without events."""
        self.loop, self.memory = Loop(), Memory()
        clock = Clock(now=lambda: moment(self.loop.time()), monotonic=self.loop.time)
        self.publisher = EventPublisher(self.memory.cluster, "operator-1", clock)
        self.flooding = self.memory.resource()
        metadata = {**self.flooding["metadata"], "name": "other", "uid": "uid-of-other"}
        self.other = {**self.flooding, "metadata": metadata}

    def flood(self, events: int) -> None:
        """Publish `events` different events at the same time."""

        async def publish() -> None:
            for number in range(events):
                self.publisher.publish(self.flooding, Event("Warning", "GateClosed", f"word {number}"))

        self.loop.run_until_complete(publish())

    def notes(self, resource: Object) -> list[str]:
        """Return the notes of a resource's events in the cluster."""
        events = self.memory.api.kind("Event")
        return [each["note"] for each in events if each["regarding"]["uid"] == resource["metadata"]["uid"]]

    def tell(self) -> None:
        """Publish an event of the resource `other`."""

        async def publish() -> None:
            self.publisher.publish(self.other, STARTED)

        self.loop.run_until_complete(publish())

    def pass_time(self, seconds: float) -> None:
        """Advance the clock while events are published."""
        self.loop.run_until(self.loop.time() + seconds)


@pytest.fixture
def flooded() -> Iterator[Flooded]:
    made = Flooded()
    yield made
    made.loop.run_until_complete(made.publisher.__aexit__())
    made.loop.run_until(made.loop.time())
    made.loop.close()


def test_flood_of_events_is_published_once_a_second(flooded: Flooded) -> None:
    flooded.flood(100)
    flooded.pass_time(5)
    assert len(flooded.notes(flooded.flooding)) == BURST + 5


def test_last_events_of_a_flood_are_published(flooded: Flooded) -> None:
    flooded.flood(100)
    flooded.pass_time(60)
    assert "word 99" in flooded.notes(flooded.flooding)


def test_flood_of_one_resource_does_not_delay_others(flooded: Flooded) -> None:
    flooded.flood(100)
    flooded.tell()
    flooded.pass_time(0.1)
    assert flooded.notes(flooded.other) == ["revision b"]


async def test_long_names_are_shortened_in_events() -> None:
    made = Publishing()
    long = "n" * 253
    made.resource = {**made.resource, "metadata": {**made.resource["metadata"], "name": long}}
    made.publisher = EventPublisher(made.memory.cluster, "p" * 300)
    async with made.publisher:
        [event] = await made.publish(STARTED)
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["reportingInstance"]) == 128
