"""The commands of `gaudi-plan` and their options.

Only fast imports are at the top of this file, because these imports delay every command. A command imports the module
of its topic. rich is imported only for terminal output.
"""

from pathlib import Path
from typing import Annotated

import typer

from gaudi_operator.cli.options import add_version_option
from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.faults import SpecRefused
from gaudi_operator.cli.plan.options import (
    REFUSED,
    BytesOption,
    CostModel,
    DecodeOption,
    FormOption,
    FromCluster,
    GraphsOption,
    HeatMetric,
    KvBlocks,
    Name,
    Namespace,
    PatchForm,
    SecondsOption,
    report_errors,
    select_document,
    with_document,
    with_document_or_refusal,
)
from gaudi_operator.cli.plan.output import OutputFormat, OutputOption, print_warnings, write_output
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

MAX_TRAFFIC_BYTES = 1024 * 1024

HELP = """Plan the buckets of a Gaudi inference server without a card.

Every command reads a GaudiInference, a RuntimeConfig or the limits of a model: from a file (-f FILE), from standard
input (-f -) or from a cluster (--from-cluster NAME).

\b
Start with:
  gaudi-plan buckets -f model.yaml                 all planned buckets
  gaudi-plan buckets -f model.yaml --heat padding  padding of each bucket
  gaudi-plan find -f model.yaml 1 412 0            the bucket of a prompt
  gaudi-plan forecast -f model.yaml                memory, graphs and warm-up time
  gaudi-plan diff old.yaml new.yaml                what a change costs
  gaudi-plan compare -f model.yaml                 the strategies side by side
  gaudi-plan trace -f model.yaml --trace log.csv   all strategies on your traffic
  gaudi-plan learn -f model.yaml --traffic t.txt   buckets for the traffic of your pods
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
add_version_option(app, "gaudi-plan")


@app.command()
@with_document
def buckets(
    document: PlanDocument,
    heat: Annotated[
        HeatMetric | None,
        typer.Option(help="Figure to show as a heat map instead of the table. With -o svg, the default is padding."),
    ] = None,
    card: Annotated[str | None, typer.Option(help="Card for --heat bytes: gaudi2 or gaudi3.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model for --heat bytes: a public repository, or the path of a config.json.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="CSV of requests for --heat hits, in the format of gaudi-plan trace.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print all buckets that a server prepares.

    \b
    gaudi-plan buckets -f examples/vllm/llama-3.1-8b.yaml
    gaudi-plan buckets --from-cluster llama -n models --heat padding
    gaudi-plan buckets -f model.yaml --heat hits --trace requests.csv
    gaudi-plan buckets -f limits.json -o svg > plan.svg
    """
    from gaudi_operator.cli.plan.buckets import buckets_output

    if heat and output not in (OutputFormat.TABLE, OutputFormat.SVG):
        raise ConfigError(f"--heat draws a heat map, which has no {output} form. Choose -o table or -o svg")
    write_output(buckets_output(document, heat, card, model, trace), output)


@app.command()
@with_document
def find(
    document: PlanDocument,
    batch_size: Annotated[int, typer.Argument(min=0, help="Number of sequences.")],
    query: Annotated[int, typer.Argument(min=0, help="Number of new tokens per sequence: 1 for decode.")],
    blocks: Annotated[
        int, typer.Argument(min=0, help="Context blocks per sequence for prompt, KV blocks of the batch for decode.")
    ],
    phase: Annotated[BucketPhase, typer.Option(help="Phase of the batch.")] = BucketPhase.PROMPT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print the bucket that a batch is padded to.

    \b
    gaudi-plan find -f model.yaml 1 412 0                  a prompt of 412 tokens
    gaudi-plan find -f model.yaml 3 412 0                  3 prompts of up to 412 tokens, if maxNumPrefillSeqs allows
    gaudi-plan find -f model.yaml --phase decode 3 1 33    3 sequences with 33 KV blocks
    """
    from gaudi_operator.cli.plan.buckets import find_output

    write_output(find_output(document, phase, (batch_size, query, blocks)), output)


@app.command()
@with_document_or_refusal
def forecast(
    document: PlanDocument | SpecRefused,
    card: Annotated[str | None, typer.Option(help="Card to forecast for: gaudi2, gaudi3, or none for the CPU.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Repository of a public model, or the path of a checkpoint's config.json.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Show where each figure comes from.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print whether a deployment fits and what to change, then memory, graphs and warm-up time.

    The output begins with the verdict. The verdict determines the exit code:

    \b
    0  FITS                room for the model and for the graphs that readiness requires
    0  FITS WITH WARNINGS  the same as FITS, with warnings to read first
    3  DOES NOT FIT        no room for the model, or no room for these graphs by any estimate
    4  REFUSED             the API server or the operator refuses the spec
    5  UNKNOWN             only the first pod can show it: the answer names what is missing
    2  the document or an option is wrong

    \b
    gaudi-plan forecast -f examples/vllm/llama-3.1-8b.yaml
    gaudi-plan forecast -f limits.json --model Qwen/Qwen3-32B --card gaudi3
    gaudi-plan forecast -f model.yaml --model checkpoint/config.json -o json
    """
    from gaudi_operator.cli.plan.forecast import forecast_deployment
    from gaudi_operator.cli.plan.forecast_output import forecast_output, refusal_output

    if isinstance(document, SpecRefused):
        write_output(refusal_output(document), output)
        raise typer.Exit(REFUSED)
    deployment_forecast = forecast_deployment(document, card, model)
    write_output(forecast_output(deployment_forecast, sources=sources), output)
    raise typer.Exit(deployment_forecast.verdict.exit_code)


@app.command()
def diff(
    files: Annotated[
        list[Path], typer.Argument(metavar="[OLD] NEW", help="Two documents, or one document with --from-cluster.")
    ],
    from_cluster: FromCluster = None,
    namespace: Namespace = None,
    name: Name = None,
    kv_blocks: KvBlocks = None,
    card: Annotated[str | None, typer.Option(help="Card of both forecasts: gaudi2, gaudi3 or none.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model of both forecasts: a public repository, or the path of a config.json.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print what changes: buckets, recompiled buckets, replaced pods, memory and minutes of warm-up.

    \b
    gaudi-plan diff old.yaml new.yaml
    gaudi-plan diff --from-cluster llama -n models new.yaml
    """
    from gaudi_operator.cli.plan.diff import diff_output

    with report_errors():
        if len(files) != (1 if from_cluster else 2) or files == [Path("-"), Path("-")]:
            raise ConfigError("give two documents, OLD and NEW, or --from-cluster NAME and NEW")
        old_file = None if from_cluster else files[0]
        old = select_document(old_file, from_cluster, namespace, None if from_cluster else name, None, kv_blocks)
        new = select_document(files[-1], None, None, name, None, kv_blocks)
        write_output(diff_output(old, new, card, model), output)


@app.command()
@with_document
def compare(
    document: PlanDocument,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", help="CSV of requests to compute padding for, in the format of gaudi-plan trace."),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Compare the strategies by graphs, padding, coverage and warm-up.

    The comparison includes Optimal with half and twice as many graphs. Padding is computed for the requests of --trace,
    for the traffic of the policy, or for all sizes with the same weight. To learn from a trace, use gaudi-plan trace.

    \b
    gaudi-plan compare -f model.yaml
    gaudi-plan compare -f model.yaml --trace requests.csv
    gaudi-plan compare -f model.yaml -o svg > graphs.svg
    """
    from gaudi_operator.cli.plan.comparison import compare_strategies

    traffic = None
    if trace:
        from gaudi_operator.cli.plan.trace import TraceFile, read_expected_traffic
        from gaudi_runtime.traffic.trace import ColumnNames

        traffic = read_expected_traffic(document, TraceFile(trace, ColumnNames()))
    write_output(compare_strategies(document, traffic), output)


@app.command()
@with_document
def trace(
    document: PlanDocument,
    trace: Annotated[Path, typer.Option("--trace", help="CSV of requests: arrival time, context, generated tokens.")],
    learn: Annotated[
        Path | None,
        typer.Option("--learn", help="CSV of requests to learn from. Defaults to the earlier half of --trace."),
    ] = None,
    graphs: GraphsOption = None,
    decode_graphs: DecodeOption = None,
    graph_bytes: BytesOption = None,
    warmup_seconds: SecondsOption = None,
    save_traffic: Annotated[
        Path | None, typer.Option(help="File that the learned traffic is written to, for bucketing.optimal.traffic.")
    ] = None,
    arrival_column: Annotated[str | None, typer.Option(help="Column of the arrival time.")] = None,
    context_column: Annotated[str | None, typer.Option(help="Column of the context (prompt) tokens.")] = None,
    generated_column: Annotated[str | None, typer.Option(help="Column of the generated tokens.")] = None,
    prompt_speed: Annotated[
        float, typer.Option(min=1, help="Prompt tokens per second of the simulated server.")
    ] = 15_000,
    step_seconds: Annotated[
        float, typer.Option(min=0.0001, help="Duration of a decode step of the simulated server, in seconds.")
    ] = 0.025,
    cost: Annotated[CostModel, typer.Option("--cost", help="Unit in which padding is measured.")] = CostModel.TYPICAL,
    card: Annotated[str | None, typer.Option(help="Card for --cost roofline: gaudi2 or gaudi3.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model for --cost roofline: a public repository, or the path of a config.json.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Evaluate every strategy on the traffic of a trace. Optimal is evaluated on other traffic than it learned from.

    Examples:
        gaudi-plan trace -f limits.json --trace requests.csv

        gaudi-plan trace -f model.yaml --trace today.csv --learn yesterday.csv --graphs 10 -o json

        gaudi-plan trace -f limits.json --trace requests.csv --cost roofline --model Qwen/Qwen3-32B --card gaudi3
    """
    from gaudi_operator.cli.plan.strategy_scores import OptimalBudget
    from gaudi_operator.cli.plan.trace import TraceFile, Traces, score_strategies, select_cost
    from gaudi_runtime.traffic.batching import ServerPace
    from gaudi_runtime.traffic.trace import ColumnNames

    padding_cost = select_cost(document, cost, card, model)
    columns = ColumnNames(arrival_column, context_column, generated_column)
    learned_trace = TraceFile(learn, columns) if learn else None
    traces = Traces(TraceFile(trace, columns), learned_trace, ServerPace(prompt_speed, step_seconds))
    budget = OptimalBudget(graphs, decode_graphs, graph_bytes, warmup_seconds)
    write_output(score_strategies(document, traces, budget, padding_cost, save_traffic), output)


@app.command()
@with_document
def learn(
    document: PlanDocument,
    traffic: Annotated[
        list[Path],
        typer.Option("--traffic", help="File with the answer of a pod to /v1/traffic. Repeat the option for each pod."),
    ],
    form: FormOption = PatchForm.OPTIMAL,
    graphs: GraphsOption = None,
    decode_graphs: DecodeOption = None,
    graph_bytes: BytesOption = None,
    warmup_seconds: SecondsOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Choose buckets for the traffic that pods served, and print the change of spec.bucketing as a merge patch.

    \b
    gaudi-plan learn --from-cluster llama --traffic traffic.txt
    gaudi-plan learn --from-cluster llama --traffic traffic.txt --graphs 20 -o yaml > patch.yaml
    kubectl patch gi llama --type merge --patch-file patch.yaml
    """
    from gaudi_operator.cli.plan.document import read_text
    from gaudi_operator.cli.plan.learn import learn_plan, read_traffic_texts
    from gaudi_operator.cli.plan.strategy_scores import OptimalBudget

    observed_traffic = read_traffic_texts((str(file), read_text(file, MAX_TRAFFIC_BYTES)) for file in traffic)
    budget = OptimalBudget(graphs, decode_graphs, graph_bytes, warmup_seconds)
    learned_plan = learn_plan(document, observed_traffic, budget, form)
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        # JSON and YAML output is a patch, which has no field for warnings. Write the warnings to standard error.
        print_warnings(learned_plan.warnings)
    write_output(learned_plan.command_output(), output)


def main() -> None:
    """Run the console script."""
    app()
