"""Events that affect a resource, represented as values.

The simulation in memory and a real cluster use the same events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """The possible faults of a write by the operator."""

    NONE = "none"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    LATE = "late"
    KILLED = "killed"


@dataclass(frozen=True)
class PassTime:
    """Time passes without other events."""

    seconds: int


@dataclass(frozen=True)
class ChangeSpec:
    """A user changes fields of the spec with a JSON merge patch."""

    patch: Mapping[str, Any]


@dataclass(frozen=True)
class Restart:
    """A user requests a restart of all pods."""

    value: str


@dataclass(frozen=True)
class Undo:
    """A user changes the spec back to the inputs of a kept revision."""

    revision: str


@dataclass(frozen=True)
class Forgive:
    """A user removes the failure mark of a revision."""

    revision: str


@dataclass(frozen=True)
class KillPod:
    """A pod is deleted by a user or by an eviction."""

    pod: str


@dataclass(frozen=True)
class EndContainer:
    """The container of a pod dies and is restarted."""

    pod: str


@dataclass(frozen=True)
class FailPod:
    """A node evicts a pod. The pod stays in the phase Failed."""

    pod: str


@dataclass(frozen=True)
class RefusePods:
    """For some time, a node fails each new pod immediately."""

    node: str
    seconds: int


@dataclass(frozen=True)
class Load:
    """A pod answers requests."""

    pod: str
    requests: int


@dataclass(frozen=True)
class LoseNode:
    """A node becomes unreachable. Its containers may continue to run."""

    node: str


@dataclass(frozen=True)
class ReturnNode:
    """A node is reachable again. With `rebooted`, the containers of the node are new."""

    node: str
    rebooted: bool


@dataclass(frozen=True)
class TakeCards:
    """Other workloads use cards of a node."""

    node: str
    cards: int


@dataclass(frozen=True)
class LimitPods:
    """A quota limits the pods of the namespace. The value None removes the quota."""

    pods: int | None


@dataclass(frozen=True)
class AdmitPods:
    """A quota system admits at most this number of pods and holds other pods with a scheduling gate.

    None admits all pods.
    """

    pods: int | None


@dataclass(frozen=True)
class DeleteChild:
    """Another actor deletes a child."""

    kind: str
    name: str


@dataclass(frozen=True)
class BreakWrites:
    """These faults occur in the next writes of the operator."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class BlindWatch:
    """The operator's watch of a kind delivers no events for some time."""

    kind: str
    seconds: int


@dataclass(frozen=True)
class CutOff:
    """The leader's requests do not reach the API server for some time.

    With `lease_only`, only Lease requests are affected.
    """

    seconds: int
    lease_only: bool = False


@dataclass(frozen=True)
class KillOperator:
    """The leading replica of the operator is killed, and the other replica takes over."""


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
    | AdmitPods
    | DeleteChild
    | BreakWrites
    | BlindWatch
    | CutOff
    | KillOperator
)
