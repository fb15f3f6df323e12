"""`gaudi-plan find`: the bucket that a batch is padded to."""

from typing import Annotated

import typer

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.contract.report import BucketPhase


@asks
def find(
    question: PlanQuestion,
    batch_size: Annotated[int, typer.Argument(min=0, help="Sequences.")],
    query: Annotated[int, typer.Argument(min=0, help="New tokens per sequence; 1 for decode.")],
    blocks: Annotated[int, typer.Argument(min=0, help="Context blocks per sequence, or KV blocks of the batch.")],
    phase: Annotated[BucketPhase, typer.Option(help="prompt or decode.")] = BucketPhase.PROMPT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the bucket that a batch is padded to.

    \b
    gaudi-plan find -f model.yaml 3 412 0                  3 prompts of up to 412 tokens
    gaudi-plan find -f model.yaml --phase decode 3 1 33    3 sequences with 33 KV blocks
    """
    plan = question.plan()
    wanted = (batch_size, query, blocks)
    found = plan.find(phase, *wanted)
    fallback = plan.fallback(phase, question.limits, *wanted)
    outcome = tuple(found) if found else f"no bucket; it would be compiled as {tuple(fallback)} while serving"
    answer = Answer(
        data={"phase": phase, "wanted": wanted, "found": found, "fallback": fallback},
        rows=lambda: [
            ("phase", "what", "batch_size", "query_len", "num_blocks"),
            *((phase.value, what, *shape) for what, shape in _shapes(wanted, found, fallback) if shape),
        ],
        show=lambda: typer.echo(f"{phase} {wanted} -> {outcome}"),
        warnings=question.warnings,
    )
    write(answer, output)


Shape = tuple[int, int, int]


def _shapes(wanted: Shape, found: Shape | None, fallback: Shape) -> tuple[tuple[str, Shape | None], ...]:
    return ("wanted", wanted), ("found", found), ("fallback", fallback)
