"""`gaudi-plan trace`: what every strategy makes of the traffic in a trace."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.cost_model import CostModel
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.question import PlanQuestion

TraceOption = Annotated[Path, typer.Option("--trace", help="CSV of requests: arrival time, context, generated tokens.")]
LearnOption = Annotated[
    Path | None, typer.Option("--learn", help="Learn from this CSV; without it, from the earlier half of --trace.")
]
GraphsOption = Annotated[int | None, typer.Option(min=1, help="Prompt graphs of optimal [as exponential].")]
DecodeOption = Annotated[int | None, typer.Option(min=1, help="Decode graphs of optimal [as exponential].")]
BytesOption = Annotated[int | None, typer.Option(min=1, help="Budget in bytes of graph memory instead.")]
SecondsOption = Annotated[int | None, typer.Option(min=1, help="Budget in seconds of warm-up instead.")]
SaveOption = Annotated[Path | None, typer.Option(help="Write what was learned here, for bucketing.optimal.traffic.")]
ArrivalOption = Annotated[str | None, typer.Option(help="Column of the arrival time.")]
ContextOption = Annotated[str | None, typer.Option(help="Column of the context (prompt) tokens.")]
GeneratedOption = Annotated[str | None, typer.Option(help="Column of the generated tokens.")]
SpeedOption = Annotated[float, typer.Option(min=1, help="Prompt tokens per second of the simulated server.")]
StepOption = Annotated[float, typer.Option(min=0.0001, help="Seconds of its decode step.")]
CostOption = Annotated[CostModel, typer.Option("--cost", help="What padding is counted in.")]
CardOption = Annotated[str | None, typer.Option(help="Card of the roofline: gaudi2 or gaudi3.")]
ModelOption = Annotated[str | None, typer.Option(help="Model of the roofline, as for forecast.")]


@asks
def trace(
    question: PlanQuestion,
    trace: TraceOption,
    learn: LearnOption = None,
    graphs: GraphsOption = None,
    decode_graphs: DecodeOption = None,
    graph_bytes: BytesOption = None,
    warmup_seconds: SecondsOption = None,
    save_traffic: SaveOption = None,
    arrival_column: ArrivalOption = None,
    context_column: ContextOption = None,
    generated_column: GeneratedOption = None,
    prompt_speed: SpeedOption = 15_000,
    step_seconds: StepOption = 0.025,
    cost: CostOption = CostModel.TOKENS,
    card: CardOption = None,
    model: ModelOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Judge every strategy on the traffic of a trace, optimal on traffic that it has not seen.

    Examples:

        gaudi-plan trace -f limits.json --trace requests.csv

        gaudi-plan trace -f model.yaml --trace today.csv --learn yesterday.csv --graphs 10 -o json

        gaudi-plan trace -f limits.json --trace requests.csv --cost roofline --model Qwen/Qwen3-32B --card gaudi3
    """
    # Imported here: no other command pays for the optimizer and the trace reader.
    from gaudi_operator.cli.plan.contest import Budget, hold
    from gaudi_operator.cli.plan.costing import cost_of
    from gaudi_operator.cli.plan.trace_file import Server, TraceFile
    from gaudi_runtime.traffic.batching import Pace
    from gaudi_runtime.traffic.columns import ColumnNames

    # A trace does not say which prompts share a prefix, so no plan is asked for buckets with cached context.
    limits = question.limits.model_copy(update={"prefix_caching": False})
    counted, counted_in = cost_of(question, cost, card, model)
    server = Server(limits, question.blocks, Pace(prompt_speed, step_seconds))
    names = ColumnNames(arrival_column, context_column, generated_column)
    judged = TraceFile(trace, names)
    learned, seen = (
        (TraceFile(learn, names).traffic(server), judged.traffic(server)) if learn else judged.halves(server)
    )
    if save_traffic:
        _save(save_traffic, learned)
    budget = Budget(graphs, decode_graphs, graph_bytes, warmup_seconds)
    result = hold(replace(question, limits=limits), learned, seen, budget, counted)
    said = (
        f"optimal learned from {learn or f'the earlier half of {trace}'}; "
        f"all are judged on {trace if learn else 'the later half'}",
        "decode batches are an estimate: a server with continuous batching was simulated at "
        f"{prompt_speed:g} prompt tokens/s and {step_seconds:g} s a decode step",
        "prefix caching is left aside: a trace does not say which prompts share a prefix",
        counted_in,
    )
    write(_answer(result, (*question.warnings, *said)), output)


def _save(path: Path, learned: Any) -> None:
    from gaudi_runtime.errors import ConfigError
    from gaudi_runtime.traffic.histogram import write_traffic

    try:
        path.write_text(write_traffic(learned))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _answer(result: Any, warnings: tuple[str, ...]) -> Answer:
    def show() -> None:
        from gaudi_operator.cli.plan.contest_table import print_contest

        print_contest(result)

    return Answer(data={**result.data(), "warnings": warnings}, rows=result.rows, show=show, warnings=warnings)
