"""`gaudi-plan find`: the bucket that a batch is padded to."""

from typing import Annotated

import typer

from gaudi_operator.cli.plan.options import BucketFile, Document, KvBlocks, Output, OutputOption, one_sentence
from gaudi_operator.cli.plan.printing import print_json, warn
from gaudi_operator.cli.plan.question import ask
from gaudi_runtime.contract.report import BucketPhase


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
    with one_sentence():
        question = ask(file, bucket_file, kv_blocks)
        plan = question.plan()
        wanted = (batch_size, query, blocks)
        found = plan.find(phase, *wanted)
        fallback = plan.fallback(phase, question.limits, *wanted)
        warn(question.warnings)
        if output is Output.JSON:
            print_json({"phase": phase, "wanted": wanted, "found": found, "fallback": fallback})
        elif found:
            typer.echo(f"{phase} {wanted} -> {tuple(found)}")
        else:
            typer.echo(f"{phase} {wanted} -> no bucket; it would be compiled as {tuple(fallback)} while serving")
