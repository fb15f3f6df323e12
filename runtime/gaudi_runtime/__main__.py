"""`gaudi-runtime`: what a pod's container runs."""

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.contract.ports import CONFIG_PATH

PRESTOP_SECONDS = 5.0

app = typer.Typer(help="The runtime of a GaudiInference pod.", no_args_is_help=True, pretty_exceptions_enable=False)


@app.command()
def serve(
    config: Annotated[Path, typer.Option(help="RuntimeConfig, JSON.")] = Path(CONFIG_PATH),
) -> None:
    """Warm up, then serve until SIGTERM."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a preStop hook may run before our own handlers are there
    from gaudi_runtime.process.logs import set_up_logging
    from gaudi_runtime.serve import serve as serve_until_stopped

    set_up_logging()
    _run(serve_until_stopped(config))


@app.command()
def prestop(
    pid: Annotated[int, typer.Option(help="Process id of the server in this container.")] = 1,
    seconds: Annotated[float, typer.Option(help="How long SIGTERM is held back.")] = PRESTOP_SECONDS,
) -> None:
    """The container's preStop hook: close connections after each answer, for 5 seconds."""
    # A signal and not a path: nothing that the network could call.
    os.kill(pid, signal.SIGUSR1)
    # The kubelet sends SIGTERM only when the hook is over; until then kube-proxies may still route to this pod.
    time.sleep(seconds)


@app.command()
def doctor(
    engine: Annotated[list[EngineName] | None, typer.Option(help="Judge for this engine; all installed ones.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    image_only: Annotated[bool, typer.Option("--image-only", help="Leave the machine out, as a build does.")] = False,
) -> None:
    """Say what this machine and image can do, and what to do where they cannot."""
    from gaudi_runtime.doctor.command import doctor as examine

    raise typer.Exit(examine(engine or (), as_data=json, image_only=image_only))


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on uvloop where it is there, otherwise on asyncio's own loop."""
    try:  # vLLM brings it and serves on it as well
        from uvloop import run as run_fast
    except ImportError:
        asyncio.run(main)
    else:
        run_fast(main)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
