"""The protocol of an engine over several pods: the parts in other pods, and how the leader's engine reaches them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gaudi_runtime.engine_protocol.engine import PartsCanDie, Progress, RecipeKey
from gaudi_runtime.engine_protocol.messages import Update, Verb


class Meeting(NamedTuple):
    """The rendezvous in the protocol of an engine over several pods: address and port of the leader's pod."""

    address: str
    port: int


class OtherPods(Protocol):
    """The other pods of the replica, as seen by the leader's engine. Its methods may be called from any thread."""

    def start(self, progress: Progress) -> Meeting:
        """Wait for all pods and let each pod start its processes, without waiting for these processes."""

    def raise_if_failed(self) -> None:
        """Raise RankFailed if a pod could not start its processes, and EngineLost if a pod was lost."""

    def moves(self) -> int:
        """Return a counter that grows with every progress of another pod."""

    def serve(self) -> None:
        """Let the other pods report that the replica serves, without waiting."""

    def gather(self, progress: Progress) -> None:
        """Wait until all pods have joined."""

    def send_command(self, verb: Verb, *arguments: object) -> Mapping[int, Future[Update]]:
        """Let all ranks run one engine command; return their future answers by rank."""


class SpansPods(Protocol):
    """An engine over several pods. It reaches its processes in other pods itself, or sends commands to ranks."""

    def span(self, others: OtherPods) -> None:
        """Connect to the processes of these pods. Called before `load`."""


class Rank(Protocol):
    """The protocol of an engine's rank in another pod. The ranks of such an engine run each command together."""

    def report_fields(self) -> Mapping[str, object]:
        """Return the report fields that the engine decides, like Engine.report_fields."""

    def recipe_key(self) -> RecipeKey | None:
        """Return the key of compiled recipes, like Engine.recipe_key."""

    def do(self, verb: Verb, arguments: Sequence[Any], progress: Progress) -> Any:
        """Run one command and return its answer as plain data; this blocks. Raises the engine's errors."""


@runtime_checkable
class PodPart(PartsCanDie, Protocol):
    """The processes of an engine in another pod, if the engine reaches these processes itself."""

    def report_fields(self) -> Mapping[str, object]:
        """Return the report fields that the engine decides, like Engine.report_fields."""

    def recipe_key(self) -> RecipeKey | None:
        """Return the key of compiled recipes, like Engine.recipe_key."""

    def join(self, meeting: Meeting, progress: Progress) -> None:
        """Start the processes, which connect to those of the leader. Raises a RuntimeStartError."""

    async def close(self) -> None:
        """End the processes."""
