"""What leader and ranks send each other: lines of JSON (docs/how-to/several-nodes.md, How ranks work together)."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from pydantic import Field

from gaudi_runtime.contract.base import Wire
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, RankFailed

MOST_LINE_BYTES = 16 * 1024 * 1024
"""Room for a plan of some hundred thousand buckets."""
CAPTURE_ERRORS = {"DeviceOutOfMemory": DeviceOutOfMemory, "GraphRefused": GraphRefused}
"""Without a reason of their own: they end no start."""


class Verb(StrEnum):
    """What a rank can be ordered to do: the verbs of an engine, in the order of start-up."""

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
    """A rank joins; `config` is the digest of its configuration, which must be the leader's."""

    rank: int = Field(ge=1)
    config: str


class Order(Wire):
    """From the leader: a verb, a farewell, why a rank may not join, or nothing but a sign of life."""

    verb: Verb | None = None
    arguments: tuple[Any, ...] = ()
    farewell: bool = False
    refused: str | None = None


class Failure(Wire):
    """Why a rank could not do a verb; `reason` is that of errors.py."""

    reason: str
    message: str


class Update(Wire):
    """From a rank: that something moved, that a verb is done, that it is to end, or nothing but a sign of life.

    `closing` and `stopping` are what was asked of its pod; the group ends with it, so the leader does the same.
    """

    moved: bool = False
    closing: bool = False
    stopping: bool = False
    done: Verb | None = None
    answer: Any = None
    failure: Failure | None = None


def line(message: Wire) -> bytes:
    """One message on the wire."""
    return message.model_dump_json(exclude_defaults=True).encode() + b"\n"


def config_digest(config: RuntimeConfig) -> str:
    """SHA-256 of all that ranks must agree on, 64 hex digits: each has ports of its own."""
    return sha256(config.model_dump_json(exclude={"serving"}).encode()).hexdigest()


def failure_of(error: Exception) -> Failure:
    """An error for the wire; one that is none of ours goes by its name."""
    name = type(error).__name__
    reason = name if name in CAPTURE_ERRORS else getattr(error, "reason", None)
    message = str(error) if reason else f"{name}: {error}"
    return Failure(reason=reason or "Crashed", message=message[:1024])


def raise_first_failure(updates: Mapping[int, Update]) -> None:
    """Raise what the first rank that failed has met, naming the rank; `updates` by rank."""
    for rank, update in sorted(updates.items()):
        if failure := update.failure:
            # The former are met again by whoever captures graphs; the latter is a sentence of its own in the report.
            if kind := CAPTURE_ERRORS.get(failure.reason):
                raise kind(f"rank {rank}: {failure.message}")
            raise RankFailed(failure.reason, f"Rank {rank}: {failure.message}")
