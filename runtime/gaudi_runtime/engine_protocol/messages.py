"""The messages between the leader and the ranks of a group, as lines of JSON (docs/how-to/several-nodes.md)."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from pydantic import Field

from gaudi_runtime.contract.base import WireModel
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, RankFailed

MOST_LINE_BYTES = 16 * 1024 * 1024
"""The longest line: room for a plan of some hundred thousand buckets."""
CAPTURE_ERRORS = {"DeviceOutOfMemory": DeviceOutOfMemory, "GraphRefused": GraphRefused}
"""The errors without a reason code, because they do not end a start."""


class MessageVerb(StrEnum):
    """A command that the leader sends to a rank. Each command is a method of an engine, in the order of start-up."""

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


class HelloMessage(WireModel):
    """The first message of a rank. `config` is the digest of its configuration and must equal the leader's."""

    rank: int = Field(ge=1)
    config: str


class LeaderMessage(WireModel):
    """A message of the leader: a command, a farewell, the reason why a rank is rejected, or only a heartbeat."""

    verb: MessageVerb | None = None
    arguments: tuple[Any, ...] = ()
    farewell: bool = False
    refused: str | None = None


class _Failure(WireModel):
    """The failure of a command on a rank. `reason` is a reason code from errors.py or a key of CAPTURE_ERRORS."""

    reason: str
    message: str


class UpdateMessage(WireModel):
    """A message of a rank: progress, a finished command, a stop, or only a heartbeat.

    `closing` and `stopping` show the signals that the rank's pod received. The whole group ends with this pod, so the
    leader handles the signals as its own.
    """

    moved: bool = False
    closing: bool = False
    stopping: bool = False
    done: MessageVerb | None = None
    answer: Any = None
    failure: _Failure | None = None


def encode_message(message: WireModel) -> bytes:
    """Return a message between leader and ranks as a line of JSON."""
    return message.model_dump_json(exclude_defaults=True).encode() + b"\n"


def message_config_digest(config: RuntimeConfig) -> str:
    """Return the SHA-256 of the configuration without the `serving` section, for a rank's first message."""
    return sha256(config.model_dump_json(exclude={"serving"}).encode()).hexdigest()


def failure_message_from_error(error: Exception) -> _Failure:
    """Return an error as the failure in a message. The text of an error without a reason starts with its type."""
    name = type(error).__name__
    reason = name if name in CAPTURE_ERRORS else getattr(error, "reason", None)
    message = str(error) if reason else f"{name}: {error}"
    return _Failure(reason=reason or "Crashed", message=message[:1024])


def raise_first_failure_message(updates: Mapping[int, UpdateMessage]) -> None:
    """Raise the first failure in the messages of the ranks. The error names the rank."""
    for rank, update in sorted(updates.items()):
        if failure := update.failure:
            # The capture of graphs handles the errors in CAPTURE_ERRORS. RankFailed carries the reason and message of
            # every other failure to the report.
            if error_type := CAPTURE_ERRORS.get(failure.reason):
                raise error_type(f"rank {rank}: {failure.message}")
            raise RankFailed(failure.reason, f"Rank {rank}: {failure.message}")
