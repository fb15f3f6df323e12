"""`make demo`: from nothing to a streamed chat completion and a rolling upgrade under load."""

from typing import Annotated

import typer

from demo.story import clean, run
from localcluster import LocalClusterError

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def main(
    clean_up: Annotated[bool, typer.Option("--clean", help="Remove the cluster that the demo left running.")] = False,
) -> None:
    """Run the demo, or remove the cluster that the demo started."""
    try:
        clean() if clean_up else run()
    except (LocalClusterError, TimeoutError) as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app()
