"""The part of an engine in other pods of its replica, and how the engine of the leader's pod reaches it."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gaudi_runtime.engine_protocol.engine import PartsCanDie, Progress, RecipeKey
from gaudi_runtime.engine_protocol.messages import Update, Verb


class Meeting(NamedTuple):
    """Where the processes of all pods of a replica meet: an address and a free port of the leader's pod."""

    address: str
    port: int


class Others(Protocol):
    """The other pods of the replica, as the engine of the leader's pod sees them. From any thread."""

    def start(self, progress: Progress) -> Meeting:
        """Wait until all are there and let each start its processes, which is not waited for."""

    def raise_if_failed(self) -> None:
        """Raises RankFailed with the reason of a pod that could not start its processes, EngineLost for one lost."""

    def moves(self) -> int:
        """Grows whenever something moves in one of them."""

    def serve(self) -> None:
        """Let them report that the replica serves; nothing is waited for."""

    def gather(self, progress: Progress) -> None:
        """Wait until all are there."""

    def order(self, verb: Verb, *arguments: object) -> Mapping[int, Future[Update]]:
        """Let all do one verb of an engine; their answers by rank."""


class SpansPods(Protocol):
    """An engine over several pods: it reaches its processes there itself, for all but their start, or orders verbs."""

    def span(self, others: Others) -> None:
        """Be one with processes of these pods. Called before `load`."""


class Rank(Protocol):
    """One rank, in another pod, of an engine whose pods do each verb together."""

    def report_fields(self) -> Mapping[str, object]:
        """The same as `Engine.report_fields`."""

    def recipe_key(self) -> RecipeKey | None:
        """The same as `Engine.recipe_key`."""

    def do(self, verb: Verb, arguments: Sequence[Any], progress: Progress) -> Any:
        """The answer as plain data; it blocks. Raises what the engine raises."""


@runtime_checkable
class PodPart(PartsCanDie, Protocol):
    """The processes in another pod of an engine that reaches them itself."""

    def report_fields(self) -> Mapping[str, object]:
        """The same as `Engine.report_fields`."""

    def recipe_key(self) -> RecipeKey | None:
        """The same as `Engine.recipe_key`."""

    def join(self, meeting: Meeting, progress: Progress) -> None:
        """Start the processes, which meet those of the leader. Raises a RuntimeStartError."""

    async def close(self) -> None:
        """End them."""
