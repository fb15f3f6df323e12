"""`gaudi-plan learn`: a better plan from the traffic that pods met."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.form import Form
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, warn, write
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_operator.cli.plan.trace import BytesOption, DecodeOption, GraphsOption, SecondsOption

MAX_TRAFFIC_BYTES = 1024 * 1024

TrafficOption = Annotated[
    list[Path], typer.Option("--traffic", help="What a pod answers at /v1/traffic; once for every pod.")
]
FormOption = Annotated[
    Form, typer.Option("--as", help="optimal keeps the traffic in the spec, file the buckets that were chosen.")
]


@asks
def learn(
    question: PlanQuestion,
    traffic: TrafficOption,
    form: FormOption = Form.OPTIMAL,
    graphs: GraphsOption = None,
    decode_graphs: DecodeOption = None,
    graph_bytes: BytesOption = None,
    warmup_seconds: SecondsOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Choose buckets for the traffic that pods met, and print the change of spec.bucketing as a merge patch.

    \b
    gaudi-plan learn --from-cluster llama --traffic traffic.txt
    gaudi-plan learn --from-cluster llama --traffic traffic.txt --graphs 20 -o yaml > patch.yaml
    kubectl patch gi llama --type merge --patch-file patch.yaml
    """
    # Imported here: no other command pays for the optimizer.
    from gaudi_operator.cli.plan.contest import Budget
    from gaudi_operator.cli.plan.document import read_text
    from gaudi_operator.cli.plan.learning import learn, read_texts

    met = read_texts((str(file), read_text(file, MAX_TRAFFIC_BYTES)) for file in traffic)
    budget = Budget(graphs, decode_graphs, graph_bytes, warmup_seconds)
    found = learn(question, met, budget, form)
    if output in (Output.JSON, Output.YAML):
        # Beside the patch, because there is no place for them inside.
        warn(found.warnings)
    write(Answer(data=found.patch, rows=found.rows, show=lambda: _show(found), warnings=found.warnings), output)


def _show(found: Any) -> None:
    from rich.console import Console

    from gaudi_operator.cli.plan.learned_table import print_learned

    console = Console()
    print_learned(found, console)
    console.print("-o yaml prints the patch of the GaudiInference.")
