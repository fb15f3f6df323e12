"""BucketTable: the answer of `GET /v1/buckets`, with the state and the traffic of each planned bucket.

The table is for users and their tools. The operator reads only the counts in the report, because a plan may have
thousands of buckets.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.contract.report_fields import Count, Large, Shape, ShortText

MOST_ROWS = 8192


class BucketState(StrEnum):
    """The state of one bucket in the bucket table. The report states whether graphs are captured in this mode."""

    PLANNED = "Planned"
    COMPILING = "Compiling"
    WARM = "Warm"
    CAPTURING = "Capturing"
    CAPTURED = "Captured"
    EXECUTED = "Executed"
    """Executed a second time, in modes without a graph per bucket."""
    WITHOUT_GRAPH = "WithoutGraph"
    """Compiled, but without a graph, or not executed a second time."""
    COLD = "Cold"
    """Left out. Batches that are padded to this bucket wait for its compile."""
    UNPLANNED = "Unplanned"
    """A shape that is no planned bucket, but at which batches ran."""


class BucketRow(TolerantModel):
    """A row of the bucket table: one bucket, and its batches since this container instance began to serve."""

    phase: BucketPhase
    bucket: Shape = Field(description="(batch size, query tokens, KV blocks).")
    state: BucketState
    reason: ShortText | None = Field(None, description="Why it was left out.")
    hits: Large = Field(0, description="Batches that used it warm.")
    misses: Large = Field(0, description="Batches that used it cold.")
    compiles: Count = Field(0, description="Compiles that these batches waited for.")


class BucketTable(TolerantModel):
    """All buckets of one container instance: prompt buckets first, each phase in the order of the plan."""

    version: Literal["v1"] = "v1"
    instance: Annotated[str, Field(max_length=64)]
    rows: Annotated[tuple[BucketRow, ...], Field(max_length=MOST_ROWS)] = ()
    left_off: Large = Field(0, description="Rows beyond the largest number of rows.")
