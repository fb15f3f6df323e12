"""Options of both command line tools: `--version`, and a decorator that gives many commands the same options."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from gaudi_runtime.version import version_line

Selection = TypeVar("Selection")
Parameters = ParamSpec("Parameters")
Command = Callable[Concatenate[Selection, Parameters], None]


def add_version_option(app: typer.Typer, program: str) -> None:
    """Add the option `--version` to a command line tool, `gaudi-plan` or `kubectl gaudi`."""

    def print_version(show_version: bool) -> None:
        if show_version:
            typer.echo(version_line(program))
            raise typer.Exit

    def options(
        version: Annotated[
            bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None:
        """Accept the options before the command, such as --version."""

    app.callback()(options)


def with_options_of(
    select: Callable[..., Selection], report_errors: Callable[[], AbstractContextManager[None]]
) -> Callable[[Command[Selection, Parameters]], Callable[..., None]]:
    """Return a decorator that replaces the first parameter of a command by the options in the signature of `select`.

    The decorated command calls `select` with these options, and passes the result to the original command. Both calls
    run in `report_errors`. typer shows parameters in the order of the signature. Therefore arguments come before
    options, and the parameters of `select` come before the parameters of the command.
    """
    shared_parameters = inspect.signature(select).parameters

    def decorate(command: Command[Selection, Parameters]) -> Callable[..., None]:
        command_parameters = list(inspect.signature(command).parameters.values())[1:]

        @wraps(command)
        def run_command(**options: Any) -> None:
            with report_errors():
                selection = select(**{name: options.pop(name) for name in shared_parameters})
                command(selection, **options)  # type: ignore[call-arg]

        parameters = sorted(
            [*shared_parameters.values(), *command_parameters],
            key=lambda parameter: parameter.default is not parameter.empty,
        )
        run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run_command

    return decorate
