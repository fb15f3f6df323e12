"""The protocol of an engine in several pods: its parts in other pods, and how the leader's engine reaches them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gaudi_runtime.engine_protocol.engine import CanBeLost, Progress, RecipeKey
from gaudi_runtime.engine_protocol.messages import MessageVerb, UpdateMessage


class LeaderEndpoint(NamedTuple):
    """The address and port in the leader's pod to which the processes of an engine in several pods connect."""

    address: str
    port: int


class OtherPods(Protocol):
    """The other pods of the replica, as the leader's engine uses them. All methods are thread-safe."""

    def start(self, progress: Progress) -> LeaderEndpoint:
        """Wait for all pods and send them the command to start processes, without waiting for the result."""

    def raise_if_failed(self) -> None:
        """Raise RankFailed if a pod could not start its processes, or EngineLost if a pod was lost."""

    def progress_count(self) -> int:
        """Return a counter that grows each time another pod reports progress."""

    def announce_serving(self) -> None:
        """Send the other pods the command to report that the replica serves, without waiting."""

    def wait_for_ranks(self, progress: Progress) -> None:
        """Wait until all pods have connected."""

    def send_command(self, verb: MessageVerb, *arguments: object) -> Mapping[int, Future[UpdateMessage]]:
        """Send one engine command to all ranks and return their answers as futures, by rank."""


class MultiPodEngine(Protocol):
    """An engine in several pods. It connects to its processes in other pods, or sends commands to ranks."""

    def set_other_pods(self, other_pods: OtherPods) -> None:
        """Combine this engine with its parts in the other pods. This method is called before `load`."""


class Rank(Protocol):
    """A rank of an engine in another pod. All ranks of the engine run each command at the same time."""

    def report_fields(self) -> Mapping[str, object]:
        """Return the report fields that only the engine can set, like Engine.report_fields."""

    def recipe_key(self) -> RecipeKey | None:
        """Return the key of compiled recipes, like Engine.recipe_key."""

    def run_command(self, verb: MessageVerb, arguments: Sequence[Any], progress: Progress) -> Any:
        """Run one command and return its answer as plain data. The method blocks and raises the engine's errors."""


@runtime_checkable
class PodPart(CanBeLost, Protocol):
    """The processes of an engine in another pod, if the leader's engine connects to these processes directly."""

    def report_fields(self) -> Mapping[str, object]:
        """Return the report fields that only the engine can set, like Engine.report_fields."""

    def recipe_key(self) -> RecipeKey | None:
        """Return the key of compiled recipes, like Engine.recipe_key."""

    def join(self, leader: LeaderEndpoint, progress: Progress) -> None:
        """Start the processes, which connect to the leader's processes. Raises a RuntimeStartError."""

    async def close(self) -> None:
        """End the processes."""
