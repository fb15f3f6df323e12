"""The commands of `gaudi-plan`, one module each.

A module imports only light things at its top, because every call pays for all of them; rich, yaml, the models of the
resource and the Kubernetes client are imported by the functions that need them.
"""

import typer

from gaudi_operator.cli.plan.buckets import buckets
from gaudi_operator.cli.plan.find import find

app = typer.Typer(
    help="Plan the buckets of a Gaudi inference server.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(buckets)
app.command()(find)


def main() -> None:
    """Entry point of the console script."""
    app()
