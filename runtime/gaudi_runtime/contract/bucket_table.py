"""BucketTable: what `GET /v1/buckets` answers, for people and their tools: each planned bucket, its state and traffic.

The operator does not read it: the report has its counts, and a plan may have thousands of buckets.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from gaudi_runtime.contract.base import Tolerant
from gaudi_runtime.contract.report import BucketPhase, Count, Large, Shape, ShortText

MOST_ROWS = 8192


class BucketState(StrEnum):
    """How far one bucket is. Whether captures apply to it, the report says."""

    PLANNED = "Planned"
    COMPILING = "Compiling"
    WARM = "Warm"
    CAPTURING = "Capturing"
    CAPTURED = "Captured"
    WITHOUT_GRAPH = "WithoutGraph"
    """Compiled, and left out of the captures."""
    COLD = "Cold"
    """Left out: batches that are padded to it wait for its compile."""
    UNPLANNED = "Unplanned"
    """A shape that batches ran at and no bucket has."""


class BucketRow(Tolerant):
    """One bucket; its batches are those since this instance serves."""

    phase: BucketPhase
    bucket: Shape = Field(description="(batch size, query tokens, KV blocks).")
    state: BucketState
    reason: ShortText | None = Field(None, description="Why it was left out.")
    hits: Large = Field(0, description="Batches that met it warm.")
    misses: Large = Field(0, description="Batches that did not.")
    compiles: Count = Field(0, description="Compiles that these batches waited for.")


class BucketTable(Tolerant):
    """All buckets of one container instance, those of the prompt first, each phase in the order of the plan."""

    version: Literal["v1"] = "v1"
    instance: Annotated[str, Field(max_length=64)]
    rows: Annotated[tuple[BucketRow, ...], Field(max_length=MOST_ROWS)] = ()
    left_off: Large = Field(0, description="Rows that there is no room for.")
