"""BucketTable: the answer of `GET /v1/buckets` for people and their tools: each planned bucket, its state and traffic.

The operator does not read it: the report has the counts, and a plan may have thousands of buckets.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from gaudi_runtime.contract.base import Tolerant
from gaudi_runtime.contract.report import BucketPhase, Count, Large, Shape, ShortText

MOST_ROWS = 8192


class BucketState(StrEnum):
    """The state of one bucket. The report states whether the mode captures graphs."""

    PLANNED = "Planned"
    COMPILING = "Compiling"
    WARM = "Warm"
    CAPTURING = "Capturing"
    CAPTURED = "Captured"
    WITHOUT_GRAPH = "WithoutGraph"
    """Compiled, but without a graph."""
    COLD = "Cold"
    """Left out: batches that are padded to it wait for its compile."""
    UNPLANNED = "Unplanned"
    """A shape at which batches ran and that no bucket has."""


class BucketRow(Tolerant):
    """One bucket, with its batches since this instance serves."""

    phase: BucketPhase
    bucket: Shape = Field(description="(batch size, query tokens, KV blocks).")
    state: BucketState
    reason: ShortText | None = Field(None, description="Why it was left out.")
    hits: Large = Field(0, description="Batches that used it warm.")
    misses: Large = Field(0, description="Batches that used it cold.")
    compiles: Count = Field(0, description="Compiles that these batches waited for.")


class BucketTable(Tolerant):
    """All buckets of one container instance, those of the prompt first, each phase in the order of the plan."""

    version: Literal["v1"] = "v1"
    instance: Annotated[str, Field(max_length=64)]
    rows: Annotated[tuple[BucketRow, ...], Field(max_length=MOST_ROWS)] = ()
    left_off: Large = Field(0, description="Rows beyond the largest number of rows.")
