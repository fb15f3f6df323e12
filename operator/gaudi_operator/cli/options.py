"""Options of both command line tools: `--version`, and a decorator that gives many commands the same options."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from gaudi_runtime.version import version_line

Question = TypeVar("Question")
Parameters = ParamSpec("Parameters")
Command = Callable[Concatenate[Question, Parameters], None]


def add_version_option(app: typer.Typer, program: str) -> None:
    """Add the option `--version` to a command line tool, `gaudi-plan` or `kubectl gaudi`."""

    def print_version(wanted: bool) -> None:
        if wanted:
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
    ask: Callable[..., Question], report_errors: Callable[[], AbstractContextManager[None]]
) -> Callable[[Command[Question, Parameters]], Callable[..., None]]:
    """Return a decorator that replaces the first parameter of a command by the options in the signature of `ask`.

    The decorated command calls `ask` with these options, and passes the result to the original command. Both calls run
    in `report_errors`. typer shows parameters in the order of the signature. Therefore arguments come before options,
    and the parameters of `ask` come before the parameters of the command.
    """
    source = inspect.signature(ask).parameters

    def decorate(command: Command[Question, Parameters]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]

        @wraps(command)
        def run_command(**options: Any) -> None:
            with report_errors():
                question = ask(**{name: options.pop(name) for name in source})
                command(question, **options)  # type: ignore[call-arg]

        ordered = sorted([*source.values(), *own], key=lambda each: each.default is not each.empty)
        run_command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        return run_command

    return decorate
