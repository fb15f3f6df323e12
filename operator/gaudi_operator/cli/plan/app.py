"""The commands of `gaudi-plan`, one module each.

A module imports only light things at its top, because every call pays for all of them; rich, yaml, the models of the
resource and the Kubernetes client are imported by the functions that need them.
"""

import typer

from gaudi_operator.cli.plan.buckets import buckets
from gaudi_operator.cli.plan.compare import compare
from gaudi_operator.cli.plan.diff import diff
from gaudi_operator.cli.plan.find import find
from gaudi_operator.cli.plan.forecast import forecast
from gaudi_operator.cli.plan.learn import learn
from gaudi_operator.cli.plan.trace import trace

HELP = """Plan the buckets of a Gaudi inference server before a card is paid for.

Every command takes a GaudiInference, a RuntimeConfig or the bare limits of a model: -f FILE, -f - for standard
input, or --from-cluster NAME.

\b
Start with:
  gaudi-plan buckets -f model.yaml                 all shapes that are prepared
  gaudi-plan buckets -f model.yaml --heat padding  what is wasted, and where
  gaudi-plan find -f model.yaml 3 412 0            the bucket of 3 prompts
  gaudi-plan forecast -f model.yaml                memory, graphs and minutes
  gaudi-plan diff old.yaml new.yaml                what a change costs
  gaudi-plan compare -f model.yaml                 the strategies side by side
  gaudi-plan trace -f model.yaml --trace log.csv   every strategy on your traffic
  gaudi-plan learn -f model.yaml --traffic t.txt   buckets for what your pods met
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(buckets)
app.command()(find)
app.command()(forecast)
app.command()(diff)
app.command()(compare)
app.command()(trace)
app.command()(learn)


def main() -> None:
    """Entry point of the console script."""
    app()
