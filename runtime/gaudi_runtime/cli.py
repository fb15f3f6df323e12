"""`gaudi-plan`: what a server would prepare, before anybody pays for a card."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.buckets.release_1_22 import plan_1_22
from gaudi_runtime.buckets.unified import plan_unified
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError, RuntimeStartError
from gaudi_runtime.plan_input import (
    MAX_DOCUMENT_BYTES,
    PlanQuestion,
    read_bounded,
    read_question,
    with_bucket_file,
)

app = typer.Typer(
    help="Plan the buckets of a Gaudi inference server.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Output(StrEnum):
    """How answers are written."""

    JSON = "json"
    TABLE = "table"


Document = Annotated[
    Path, typer.Option("-f", "--file", help="RuntimeConfig or bare limits, JSON or YAML; - reads standard input.")
]
BucketFile = Annotated[Path | None, typer.Option(help="Take the buckets from this file (strategy file).")]
KvBlocks = Annotated[int | None, typer.Option(min=1, help="KV blocks that exist on the device.")]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="json or table.")]


@app.command()
def buckets(
    file: Document,
    output: OutputOption = Output.TABLE,
    kv_blocks: KvBlocks = None,
    bucket_file: BucketFile = None,
) -> None:
    """Print all buckets that a server prepares."""
    with _one_sentence():
        question = _ask(file, bucket_file)
        blocks, warnings = _blocks(question, kv_blocks)
        if question.policy.strategy is Strategy.UNIFIED:
            _print_unified(question, blocks, warnings, output)
        else:
            _print_plan(_plan(question, blocks), warnings, output)


@app.command()
def find(
    batch_size: Annotated[int, typer.Argument(min=0, help="Sequences.")],
    query: Annotated[int, typer.Argument(min=0, help="New tokens per sequence; 1 for decode.")],
    blocks: Annotated[int, typer.Argument(min=0, help="Context blocks per sequence, or KV blocks of the batch.")],
    file: Document,
    phase: Annotated[BucketPhase, typer.Option(help="prompt or decode.")] = BucketPhase.PROMPT,
    output: OutputOption = Output.TABLE,
    kv_blocks: KvBlocks = None,
    bucket_file: BucketFile = None,
) -> None:
    """Print the bucket that a batch is padded to."""
    with _one_sentence():
        question = _ask(file, bucket_file)
        count, warnings = _blocks(question, kv_blocks)
        plan = _plan(question, count)
        wanted = (batch_size, query, blocks)
        found = plan.find(phase, *wanted)
        fallback = plan.fallback(phase, question.limits, *wanted)
        _warn(warnings)
        if output is Output.JSON:
            _print_json({"phase": phase, "wanted": wanted, "found": found, "fallback": fallback})
        elif found:
            typer.echo(f"{phase} {wanted} -> {tuple(found)}")
        else:
            typer.echo(f"{phase} {wanted} -> no bucket; it would be compiled as {tuple(fallback)} while serving")


def _ask(file: Path, bucket_file: Path | None) -> PlanQuestion:
    question = read_question(_read(file))
    return with_bucket_file(question, bucket_file) if bucket_file else question


def _read(file: Path) -> str:
    if str(file) == "-":
        return read_bounded(sys.stdin.buffer, "standard input", MAX_DOCUMENT_BYTES)
    try:
        with file.open("rb") as stream:
            return read_bounded(stream, str(file), MAX_DOCUMENT_BYTES)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def _blocks(question: PlanQuestion, given: int | None) -> tuple[int, tuple[str, ...]]:
    """The number of KV blocks to plan for, with a warning when nobody gave one."""
    known = given or question.kv_blocks
    if known:
        return known, ()
    assumed = question.assumed_blocks()
    return assumed, (
        f"{assumed} KV blocks are assumed, enough for maxNumSeqs full sequences: "
        "the device's number is known after its memory split (--kv-blocks)",
    )


def _plan(question: PlanQuestion, blocks: int) -> BucketPlan:
    if question.release == "1.22":
        return plan_1_22(question.limits, blocks)
    return make_plan(question.policy, question.limits, blocks)


def _print_plan(plan: BucketPlan, warnings: tuple[str, ...], output: Output) -> None:
    warnings = (*warnings, *plan.warnings)
    if output is Output.JSON:
        _print_json({"prompt": plan.prompt, "decode": plan.decode, "warnings": warnings})
        return
    from gaudi_runtime.plan_table import print_plan

    print_plan(plan)
    _warn(warnings)


def _print_unified(question: PlanQuestion, blocks: int, warnings: tuple[str, ...], output: Output) -> None:
    unified = plan_unified(question.limits, blocks)
    if output is Output.JSON:
        _print_json({"unified": unified, "warnings": warnings})
        return
    from gaudi_runtime.plan_table import print_unified

    print_unified(unified)
    _warn(warnings)


def _print_json(answer: dict[str, Any]) -> None:
    typer.echo(json.dumps(answer, separators=(",", ":")))


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """A bad document or an impossible plan ends with one sentence on standard error and exit code 2."""
    try:
        yield
    except RuntimeStartError as error:
        typer.echo(f"gaudi-plan: {error}.", err=True)
        raise typer.Exit(2) from error


def main() -> None:
    """Entry point of the console script."""
    app()
