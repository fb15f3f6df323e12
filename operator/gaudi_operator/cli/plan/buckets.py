"""`gaudi-plan buckets`: all buckets that a server prepares."""

from pathlib import Path
from typing import Annotated

import typer

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.heating import Heat, Subject, heat_maps
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.unified import plan_unified
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

HeatOption = Annotated[
    Heat | None, typer.Option(help="Show a heat map of this in place of the table; an svg shows padding by itself.")
]
CardOption = Annotated[str | None, typer.Option(help="Card whose graph bytes are shown: gaudi2 or gaudi3.")]
ModelOption = Annotated[str | None, typer.Option(help="Model whose graph bytes are shown, as for forecast.")]
TraceOption = Annotated[Path | None, typer.Option(help="CSV of requests whose hits are shown, as for trace.")]


@asks
def buckets(
    question: PlanQuestion,
    heat: HeatOption = None,
    card: CardOption = None,
    model: ModelOption = None,
    trace: TraceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print all buckets that a server prepares.

    \b
    gaudi-plan buckets -f examples/llama-3.1-8b-gaudi3.yaml
    gaudi-plan buckets --from-cluster llama -n models --heat padding
    gaudi-plan buckets -f model.yaml --heat hits --trace requests.csv
    gaudi-plan buckets -f limits.json -o svg > plan.svg
    """
    if heat and output not in (Output.TABLE, Output.SVG):
        raise ConfigError(f"--heat draws a map, which is not {output}; choose -o table or -o svg")
    unified = question.policy.strategy is Strategy.UNIFIED
    if heat and unified:
        raise ConfigError("--heat maps prompt and decode buckets, and strategy unified has neither; leave --heat out")
    write(_unified(question) if unified else _plan(question, heat, Subject(card, model, trace)), output)


def _plan(question: PlanQuestion, heat: Heat | None, subject: Subject) -> Answer:
    plan = question.plan()
    warnings = question.warnings_about(plan)

    def picture() -> str:
        from gaudi_operator.cli.heat.terminal import svg

        return svg(heat_maps(question, plan, heat or Heat.PADDING, subject))

    return Answer(
        data={"prompt": plan.prompt, "decode": plan.decode, "warnings": warnings},
        rows=lambda: [
            ("phase", "batch_size", "query_len", "num_blocks"),
            *((phase.value, *bucket) for phase in BucketPhase for bucket in plan.of(phase)),
        ],
        show=lambda: _show(question, plan, heat, subject),
        picture=picture,
        warnings=warnings,
    )


def _show(question: PlanQuestion, plan: BucketPlan, heat: Heat | None, subject: Subject) -> None:
    from gaudi_operator.cli.heat.terminal import print_maps
    from gaudi_operator.cli.plan.tables import print_plan

    if heat:
        print_maps(heat_maps(question, plan, heat, subject))
    else:
        print_plan(plan)


def _unified(question: PlanQuestion) -> Answer:
    unified = plan_unified(question.limits, question.blocks)

    def show() -> None:
        from gaudi_operator.cli.plan.tables import print_unified

        print_unified(unified)

    return Answer(
        data={"prompt": (), "decode": (), "unified": unified, "warnings": question.warnings},
        rows=lambda: [("query_len", "shared_blocks", "unique_blocks", "causal"), *unified],
        show=show,
        warnings=question.warnings,
    )
