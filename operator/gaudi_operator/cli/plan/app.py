"""The commands of `gaudi-plan` and their options.

Only fast imports are at the top of this file, because these imports delay every command. A command imports the module
of its topic. rich is imported only for terminal output.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gaudi_operator.cli.options import add_version_option
from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.options import (
    BytesOption,
    DecodeOption,
    FormOption,
    GraphsOption,
    PatchForm,
    SecondsOption,
    with_document,
)
from gaudi_operator.cli.plan.output import OutputFormat, OutputOption, print_output_warnings, write_output
from gaudi_runtime.contract.report import BucketPhase

MAX_TRAFFIC_BYTES = 1024 * 1024

HELP = """Plan the buckets of a Gaudi inference server without a card.

Every command reads a GaudiInference or a RuntimeConfig: from a file (-f FILE), from standard input (-f -) or from a
cluster (--from-cluster NAME).

\b
Start with:
  gaudi-plan buckets -f model.yaml                 all planned buckets
  gaudi-plan find -f model.yaml 1 412 0            the bucket of a prompt
  gaudi-plan forecast -f model.yaml                memory, graphs and warm-up time
  gaudi-plan forecast -f model.yaml --strategies   the strategies side by side
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
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print all buckets that a server prepares.

    \b
    gaudi-plan buckets -f examples/vllm/llama-3.1-8b.yaml
    gaudi-plan buckets --from-cluster llama -n models -o json
    """
    from gaudi_operator.cli.plan.buckets import buckets_output

    write_output(buckets_output(document), output)


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
    from gaudi_operator.cli.plan.buckets import find_bucket_output

    write_output(find_bucket_output(document, phase, (batch_size, query, blocks)), output)


@app.command()
@with_document
def forecast(
    document: PlanDocument,
    card: Annotated[str | None, typer.Option(help="Card to forecast for: gaudi2, gaudi3, or none for the CPU.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Repository of a public model, or the path of a checkpoint's config.json.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Show where each figure comes from.")] = False,
    strategies: Annotated[
        bool, typer.Option("--strategies", help="Compare the strategies by graphs, padding, coverage and warm-up.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print whether a deployment fits and what to change, then memory, graphs and warm-up time.

    The output begins with the verdict. The verdict determines the exit code. Only the API server checks all rules of
    the schema: kubectl apply --dry-run=server -f model.yaml

    \b
    0  FITS                room for the model, its KV cache and one sequence of maxModelLen
    0  FITS WITH WARNINGS  the same as FITS, with warnings to read first
    3  DOES NOT FIT        no room for the model, or for the graphs that readiness requires
    4  REFUSED             the operator refuses the spec, or the model supports no such length
    5  UNKNOWN             the shape of the model is unknown
    2  the document or an option is wrong

    \b
    gaudi-plan forecast -f examples/vllm/llama-3.1-8b.yaml
    gaudi-plan forecast -f model.yaml --model Qwen/Qwen3-32B --card gaudi3
    gaudi-plan forecast -f model.yaml --model checkpoint/config.json -o json
    gaudi-plan forecast -f model.yaml -o svg > graphs.svg    graphs against padding
    """
    from gaudi_operator.cli.plan.forecast import forecast_document
    from gaudi_operator.cli.plan.forecast_output import forecast_output

    deployment_forecast = forecast_document(document, card, model)
    # These imports load the optimizer, which other forecasts do not need.
    comparison, picture = None, None
    if strategies or output is OutputFormat.SVG:
        from gaudi_operator.cli.plan.comparison import compare_strategies, draw_comparison

        kv_blocks = deployment_forecast.forecast.kv_blocks
        compared_document = replace(document, kv_blocks=int(kv_blocks.value)) if kv_blocks else document
        comparison = compare_strategies(compared_document) if strategies else None
        picture = partial(draw_comparison, compared_document)
    write_output(forecast_output(deployment_forecast, sources=sources, comparison=comparison, picture=picture), output)
    raise typer.Exit(deployment_forecast.verdict.exit_code)


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
    from gaudi_operator.cli.plan.learn import learn_plan, read_traffic_to_learn
    from gaudi_runtime.contract.bucketing import OptimalSettings

    observed_traffic = read_traffic_to_learn((str(file), read_text(file, MAX_TRAFFIC_BYTES)) for file in traffic)
    budget = OptimalSettings(
        prompt_graphs=graphs, decode_graphs=decode_graphs, graph_bytes=graph_bytes, warmup_seconds=warmup_seconds
    )
    learned_plan = learn_plan(document, observed_traffic, budget, form)
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        # JSON and YAML output is a patch, which has no field for warnings. Write the warnings to standard error.
        print_output_warnings(learned_plan.warnings)
    write_output(learned_plan.command_output(), output)


def main() -> None:
    """Run the console script."""
    app()
