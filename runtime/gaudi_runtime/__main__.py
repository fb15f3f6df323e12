"""The command line `gaudi-runtime`, which runs in the container of a pod."""

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
from gaudi_runtime.version import version_line

PRESTOP_SECONDS = 5.0
REPORT_FILE = "hardware-report.json"

app = typer.Typer(
    help="The runtime of a GaudiInference pod.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(version_line("gaudi-runtime"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Handle the global options of the command line."""


@app.command(
    help="Warm up the model, then serve the model until SIGTERM. The exit code is 2 if there is no configuration."
)
def serve(
    config: Annotated[Path, typer.Option(help="Path of the RuntimeConfig, a JSON file.")] = Path(CONFIG_PATH),
) -> None:
    """Run the command `gaudi-runtime serve`, which warms up the model and serves it until SIGTERM."""
    if not config.is_file():
        typer.echo(
            f"gaudi-runtime serve: there is no configuration at {config}. The operator mounts the configuration into "
            "its pods. Pass another file with --config.",
            err=True,
        )
        raise typer.Exit(2)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a preStop hook may run before our own handlers are installed
    from gaudi_runtime.process.logs import set_up_logs
    from gaudi_runtime.serve import serve as serve_until_stopped

    set_up_logs()
    _run(serve_until_stopped(config))


@app.command(
    help="Run the preStop hook of the container: for 5 seconds, the server closes connections after each answer."
)
def prestop(
    pid: Annotated[int, typer.Option(help="Process id of the server in this container.")] = 1,
    seconds: Annotated[float, typer.Option(help="Time in seconds by which SIGTERM is delayed.")] = PRESTOP_SECONDS,
) -> None:
    """Run the command `gaudi-runtime prestop`, the preStop hook of the container."""
    # The hook sends a signal to the server. An HTTP path would be reachable for every client in the network.
    os.kill(pid, signal.SIGUSR1)
    # Delay SIGTERM, which the kubelet sends after this hook. Until all kube-proxies have removed the pod, they may
    # still route requests to it.
    time.sleep(seconds)


@app.command(help="Check this machine and this image, and print how to fix each problem.")
def doctor(
    engine: Annotated[
        list[EngineName] | None, typer.Option(help="Engine to check for. Defaults to all installed engines.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    image_only: Annotated[
        bool, typer.Option("--image-only", help="Check only the image, for example in a build.")
    ] = False,
) -> None:
    """Run the command `gaudi-runtime doctor`, which checks this machine and image."""
    from gaudi_runtime.doctor.command import run_doctor as examine

    raise typer.Exit(examine(engine or (), as_json=json, image_only=image_only))


@app.command(
    "hardware-report",
    help="Test this machine with a real model, and write a report file that can be sent to the project.",
)
def hardware_report(
    model: Annotated[Path | None, typer.Option(help="Folder of a checkpoint to test with engine vllm.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Path of a RuntimeConfig to test instead of --model, a JSON file.")
    ] = None,
    output: Annotated[
        str, typer.Option(help="File that the report is written to. - prints the report on one line.")
    ] = REPORT_FILE,
    folder: Annotated[Path | None, typer.Option(help="Folder for recipes and logs during the test.")] = None,
    tensor_parallel: Annotated[
        int, typer.Option(min=1, help="Number of tensor parallel ranks, each on one card. Only with --model.")
    ] = 1,
    max_model_len: Annotated[
        int, typer.Option(min=1, help="Maximum number of tokens of a sequence. Only with --model.")
    ] = 4096,
    max_num_seqs: Annotated[
        int, typer.Option(min=1, help="Maximum number of sequences in a decode batch. Only with --model.")
    ] = 32,
) -> None:
    """Run the command `gaudi-runtime hardware-report`, which tests this machine with a real model."""
    from gaudi_runtime.errors import ConfigError
    from gaudi_runtime.hardware.command import command_trial_config, write_hardware_report
    from gaudi_runtime.serve import read_config

    try:
        if (model is None) == (config is None):
            raise ConfigError("Pass either the folder of a checkpoint (--model) or a configuration (--config).")
        runtime_config = (
            read_config(config)
            if config
            else command_trial_config(model or Path(), tensor_parallel, max_model_len, max_num_seqs)
        )
        raise typer.Exit(write_hardware_report(runtime_config, output, folder))
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on uvloop if it is installed; otherwise on asyncio's own event loop."""
    try:  # vLLM brings it and serves on it as well
        from uvloop import run as run_fast
    except ImportError:
        asyncio.run(work)
    else:
        run_fast(work)


def main() -> None:
    """Run the `gaudi-runtime` command line."""
    app()


if __name__ == "__main__":
    main()
