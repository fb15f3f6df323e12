"""`gaudi-plan buckets` and `find`: all buckets that a server prepares, and the bucket of one batch."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import typer

from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.output import CommandOutput, output_console, output_table
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import plural

if TYPE_CHECKING:
    from rich.console import Console

Shape = tuple[int, int, int]
MOST_SHOWN = 5_000
"""The maximum number of buckets of a phase in a table. The layout of this table takes a second."""


def buckets_output(document: PlanDocument) -> CommandOutput:
    """Return the output of `gaudi-plan buckets`: the buckets of a plan. Raises ConfigError."""
    plan = document.plan()
    warnings = document.plan_warnings(plan)
    return CommandOutput(
        data={"prompt": plan.prompt, "decode": plan.decode, "warnings": warnings},
        rows=lambda: [
            ("phase", "batch_size", "query_len", "num_blocks"),
            *((phase.value, *bucket) for phase in BucketPhase for bucket in plan.buckets_of(phase)),
        ],
        show=lambda: print_plan_buckets(plan, output_console()),
        warnings=warnings,
    )


def find_bucket_output(document: PlanDocument, phase: BucketPhase, batch_shape: Shape) -> CommandOutput:
    """Return the output of `gaudi-plan find`: the bucket of a batch, or the shape to compile if no bucket fits.

    Raises ConfigError if the server refuses the prompt.
    """
    limits = document.limits
    if phase is BucketPhase.PROMPT and batch_shape[1] > limits.max_model_len:
        raise ConfigError(
            f"a prompt of {batch_shape[1]} tokens is longer than maxModelLen ({limits.max_model_len}), so the server "
            "refuses the prompt. Give fewer tokens"
        )
    plan = document.plan()
    bucket = plan.find(phase, *batch_shape)
    fallback = plan.fallback(phase, limits, *batch_shape)
    outcome = tuple(bucket) if bucket else _explain_miss(limits, phase, batch_shape, fallback)
    shapes = (("wanted", batch_shape), ("found", bucket), ("fallback", fallback))
    return CommandOutput(
        data={"phase": phase, "wanted": batch_shape, "found": bucket, "fallback": fallback},
        rows=lambda: [
            ("phase", "what", "batch_size", "query_len", "num_blocks"),
            *((phase.value, label, *shape) for label, shape in shapes if shape),
        ],
        show=lambda: typer.echo(f"{phase} {batch_shape} -> {outcome}"),
        warnings=document.warnings,
    )


def _explain_miss(limits: Limits, phase: BucketPhase, batch_shape: Shape, fallback: Bucket) -> str:
    """Return a sentence about a batch without a bucket: the batch cannot occur, or is compiled while serving."""
    size = batch_shape[0]
    if phase is BucketPhase.PROMPT and size > limits.max_num_prefill_seqs:
        limit = limits.max_num_prefill_seqs
        return f"no bucket: a step takes at most {plural(limit, 'prompt')} (maxNumPrefillSeqs), so no batch has {size}"
    if phase is BucketPhase.DECODE and size > limits.max_num_seqs:
        limit = limits.max_num_seqs
        return f"no bucket: at most {plural(limit, 'sequence')} run at once (maxNumSeqs), so no batch has {size}"
    return f"no bucket, so the batch would be compiled as {tuple(fallback)} while serving"


def print_plan_buckets(plan: BucketPlan, console: "Console") -> None:
    """Print the prompt buckets and the decode buckets as tables, then the candidates that the planner dropped."""
    console.print(_bucket_table(plural(len(plan.prompt), "prompt bucket"), "context blocks", plan.prompt))
    console.print(_bucket_table(plural(len(plan.decode), "decode bucket"), "KV blocks of the batch", plan.decode))
    for dropped in plan.dropped:
        console.print(f"{plural(dropped.count, f'{dropped.phase} candidate')} left out: {dropped.rule}")


def _bucket_table(title: str, blocks_title: str, buckets: Sequence[Bucket]) -> object:
    rows = (
        (str(batch_size), str(query_len), " ".join(str(bucket.num_blocks) for bucket in row))
        for (batch_size, query_len), row in groupby(buckets[:MOST_SHOWN], key=lambda b: (b.batch_size, b.query_len))
    )
    caption = f"the first {MOST_SHOWN}; -o csv lists all" if len(buckets) > MOST_SHOWN else None
    return output_table(rows, ("batch size", "query", blocks_title), title=title, caption=caption)
