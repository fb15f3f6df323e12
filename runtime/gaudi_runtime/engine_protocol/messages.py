"""The messages between the leader and the ranks of a group: lines of JSON (docs/how-to/several-nodes.md)."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from pydantic import Field

from gaudi_runtime.contract.base import Wire
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, RankFailed

MOST_LINE_BYTES = 16 * 1024 * 1024
"""The longest line: room for a plan of some hundred thousand buckets."""
CAPTURE_ERRORS = {"DeviceOutOfMemory": DeviceOutOfMemory, "GraphRefused": GraphRefused}
"""The errors without a reason code, because they do not end a start."""


class Verb(StrEnum):
    """A command that the leader sends to a rank. Each is a method of an engine, in the order of start-up."""

    LOAD = "load"
    PROFILE = "profile"
    BLOCK_BYTES = "blockBytes"
    ALLOCATE = "allocate"
    PLAN = "plan"
    WARM = "warm"
    CAPTURE = "capture"
    SAMPLER = "sampler"
    DEFRAGMENTER = "defragmenter"
    MEMORY = "memory"
    SERVE = "serve"


class Hello(Wire):
    """The first message of a rank; `config` is the digest of its configuration, which must equal the leader's."""

    rank: int = Field(ge=1)
    config: str


class LeaderMessage(Wire):
    """A message of the leader: a command, a farewell, the reason why a rank may not join, or only a heartbeat."""

    verb: Verb | None = None
    arguments: tuple[Any, ...] = ()
    farewell: bool = False
    refused: str | None = None


class Failure(Wire):
    """The failure of a command on a rank. `reason` is a reason code of errors.py or a key of CAPTURE_ERRORS."""

    reason: str
    message: str


class Update(Wire):
    """A message of a rank: progress, a finished command, its stop, or only a heartbeat.

    `closing` and `stopping` are the signals that the rank's pod received. The group ends with this pod, so the leader
    reacts to the same signals.
    """

    moved: bool = False
    closing: bool = False
    stopping: bool = False
    done: Verb | None = None
    answer: Any = None
    failure: Failure | None = None


def encode_message(message: Wire) -> bytes:
    """Encode one message between leader and ranks as a line of JSON."""
    return message.model_dump_json(exclude_defaults=True).encode() + b"\n"


def config_digest(config: RuntimeConfig) -> str:
    """Return the digest for a rank's first message: SHA-256 of the configuration of all ranks, without ports."""
    return sha256(config.model_dump_json(exclude={"serving"}).encode()).hexdigest()


def failure_of(error: Exception) -> Failure:
    """Return an error as the failure in a message to the leader; an error of other libraries is named by its type."""
    name = type(error).__name__
    reason = name if name in CAPTURE_ERRORS else getattr(error, "reason", None)
    message = str(error) if reason else f"{name}: {error}"
    return Failure(reason=reason or "Crashed", message=message[:1024])


def raise_first_failure(updates: Mapping[int, Update]) -> None:
    """Raise the failure of the first rank whose message reports one, naming the rank; `updates` are by rank."""
    for rank, update in sorted(updates.items()):
        if failure := update.failure:
            # The capture of graphs handles CAPTURE_ERRORS. The report has any other failure as a sentence of its own.
            if kind := CAPTURE_ERRORS.get(failure.reason):
                raise kind(f"rank {rank}: {failure.message}")
            raise RankFailed(failure.reason, f"Rank {rank}: {failure.message}")
