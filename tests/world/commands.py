"""What may happen to a resource and to the world around it, as values: the same for a model and for a real cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """What may happen to a write of the operator."""

    NONE = "none"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    LATE = "late"
    KILLED = "killed"


@dataclass(frozen=True)
class PassTime:
    """Nothing happens for so long."""

    seconds: int


@dataclass(frozen=True)
class ChangeSpec:
    """A user changes fields of the spec, by a JSON merge patch."""

    patch: Mapping[str, Any]


@dataclass(frozen=True)
class Restart:
    """A user asks for a restart of all pods."""

    value: str


@dataclass(frozen=True)
class Undo:
    """A user goes back to a kept revision by the spec."""

    revision: str


@dataclass(frozen=True)
class Forgive:
    """A user takes the mark of its failure from a revision."""

    revision: str


@dataclass(frozen=True)
class KillPod:
    """A pod is deleted, as by a person or by an eviction."""

    pod: str


@dataclass(frozen=True)
class EndContainer:
    """The container of a pod dies and is started again."""

    pod: str


@dataclass(frozen=True)
class FailPod:
    """A node throws a pod out: it has failed as a whole, and stays so."""

    pod: str


@dataclass(frozen=True)
class RefusePods:
    """A node takes no new pod for so long, and each that is sent there fails at once."""

    node: str
    seconds: int


@dataclass(frozen=True)
class Load:
    """A pod answers so many requests."""

    pod: str
    requests: int


@dataclass(frozen=True)
class LoseNode:
    """Nobody hears of a node any more; its pods may go on."""

    node: str


@dataclass(frozen=True)
class ReturnNode:
    """It is heard of again; with `rebooted`, its containers are new ones."""

    node: str
    rebooted: bool


@dataclass(frozen=True)
class TakeCards:
    """Others hold so many cards of a node."""

    node: str
    cards: int


@dataclass(frozen=True)
class LimitPods:
    """A quota bounds the pods of the namespace; None lifts it."""

    pods: int | None


@dataclass(frozen=True)
class DeleteChild:
    """Somebody deletes an object of the operator."""

    kind: str
    name: str


@dataclass(frozen=True)
class BreakWrites:
    """The next writes of the operator meet these faults."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class BlindWatch:
    """The operator's watch of a kind tells nothing new for so long."""

    kind: str
    seconds: int


@dataclass(frozen=True)
class CutOff:
    """No request of the replica that leads reaches the API server for so long, or none for the Lease alone."""

    seconds: int
    lease_only: bool = False


@dataclass(frozen=True)
class KillOperator:
    """The replica of the operator that leads ends without a word, and the other one takes over."""


Command = (
    PassTime
    | ChangeSpec
    | Restart
    | Undo
    | Forgive
    | KillPod
    | EndContainer
    | FailPod
    | RefusePods
    | Load
    | LoseNode
    | ReturnNode
    | TakeCards
    | LimitPods
    | DeleteChild
    | BreakWrites
    | BlindWatch
    | CutOff
    | KillOperator
)
