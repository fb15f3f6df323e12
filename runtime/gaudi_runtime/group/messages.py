"""What leader and ranks say to each other: lines of JSON (docs/several-nodes.md, How ranks work together)."""

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


class Verb(StrEnum):
    """What a rank can be told to do: the verbs of an engine, in the order of start-up."""

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
    """What the leader says: a verb, a farewell, why a rank may not join, or nothing but that it lives."""

    verb: Verb | None = None
    arguments: tuple[Any, ...] = ()
    farewell: bool = False
    refused: str | None = None


class Failure(Wire):
    """Why a rank could not do a verb; `reason` is that of errors.py."""

    reason: str
    message: str


class Word(Wire):
    """What a rank says: that something moved, that a verb is done, that it is to end, or nothing but that it lives.

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
    return message.model_dump_json(by_alias=True, exclude_defaults=True).encode() + b"\n"


def config_digest(config: RuntimeConfig) -> str:
    """SHA-256 of all that ranks must agree on, 64 hex digits: each has ports of its own."""
    return sha256(config.model_dump_json(by_alias=True, exclude={"serving"}).encode()).hexdigest()


OUT_OF_MEMORY = "DeviceOutOfMemory"
GRAPH_REFUSED = "GraphRefused"


def failure_of(error: Exception) -> Failure:
    """What a rank says about an error; one that is none of ours goes by its name."""
    reasons = {DeviceOutOfMemory: OUT_OF_MEMORY, GraphRefused: GRAPH_REFUSED}
    reason = reasons.get(type(error)) or getattr(error, "reason", "Crashed")
    said = str(error) if reason != "Crashed" else f"{type(error).__name__}: {error}"
    return Failure(reason=reason, message=said[:1024])


def raise_first_failure(words: Mapping[int, Word]) -> None:
    """Raise what the first rank that failed has met, naming the rank; `words` by rank."""
    for rank, word in sorted(words.items()):
        if word.failure is None:
            continue
        said = f"rank {rank}: {word.failure.message}"
        if word.failure.reason == OUT_OF_MEMORY:
            raise DeviceOutOfMemory(said)
        if word.failure.reason == GRAPH_REFUSED:
            raise GraphRefused(said)
        raise RankFailed(word.failure.reason, f"R{said[1:]}")
