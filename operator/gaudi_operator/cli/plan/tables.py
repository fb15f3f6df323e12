"""A bucket plan for people: one row per batch size and query length."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.buckets.unified import UnifiedBucket

MOST_SHOWN = 30_000
"""Buckets of a phase: a table is laid out as a whole, and nobody reads as many."""


def print_plan(plan: BucketPlan) -> None:
    """Two tables, then what the planner dropped."""
    console = Console()
    console.print(_table(f"{len(plan.prompt)} prompt buckets", "context blocks", plan.prompt))
    console.print(_table(f"{len(plan.decode)} decode buckets", "KV blocks of the batch", plan.decode))
    for dropped in plan.dropped:
        console.print(f"{dropped.count} {dropped.phase} candidates left out: {dropped.rule}")


def print_unified(buckets: Sequence[UnifiedBucket]) -> None:
    """One table of all unified buckets by query length and number of shared blocks."""
    table = Table("query", "shared blocks", "unique blocks (causal marked c)", title=f"{len(buckets)} unified buckets")
    for (query, shared), row in groupby(buckets, key=lambda b: (b.query, b.shared)):
        table.add_row(str(query), str(shared), " ".join(f"{b.unique}{'c' * b.causal}" for b in row))
    Console().print(table)


def _table(title: str, blocks: str, buckets: Sequence[Bucket]) -> Table:
    caption = f"the first {MOST_SHOWN}; -o csv lists all" if len(buckets) > MOST_SHOWN else None
    table = Table("batch size", "query", blocks, title=title, caption=caption)
    for (batch_size, query), row in groupby(buckets[:MOST_SHOWN], key=lambda b: (b.batch_size, b.query_len)):
        table.add_row(str(batch_size), str(query), " ".join(str(b.num_blocks) for b in row))
    return table
