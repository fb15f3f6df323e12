"""`gaudi-runtime`: what a pod's container runs."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.contract.ports import CONFIG_PATH

app = typer.Typer(help="The runtime of a GaudiInference pod.", no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def serve(
    config: Annotated[Path, typer.Option(help="RuntimeConfig, JSON.")] = Path(CONFIG_PATH),
) -> None:
    """Warm up, then serve until SIGTERM."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a preStop hook may run before our own handlers are there
    from gaudi_runtime.logs import set_up_logging
    from gaudi_runtime.loop import run
    from gaudi_runtime.serve import serve as serve_until_stopped

    set_up_logging()
    run(serve_until_stopped(config))


@app.command()
def prestop(pid: Annotated[int, typer.Option(help="Process id of the server in this container.")] = 1) -> None:
    """The container's preStop hook: close connections after each answer, for 5 seconds."""
    from gaudi_runtime.prestop import prestop as announce_and_wait

    announce_and_wait(pid)


@app.command()
def doctor(
    engine: Annotated[list[EngineName] | None, typer.Option(help="Judge for this engine; all installed ones.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    image_only: Annotated[bool, typer.Option("--image-only", help="Leave the machine out, as a build does.")] = False,
) -> None:
    """Say what this machine and image can do, and what to do where they cannot."""
    from gaudi_runtime.doctor.command import doctor as examine

    raise typer.Exit(examine(engine or (), as_data=json, image_only=image_only))


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
