"""Shared options of the commands of a tool: a decorator that adds the parameters of one function."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Question = TypeVar("Question")
Parameters = ParamSpec("Parameters")
Command = Callable[Concatenate[Question, Parameters], None]


def questions(
    ask: Callable[..., Question], report_errors: Callable[[], AbstractContextManager[None]]
) -> Callable[[Command[Question, Parameters]], Callable[..., None]]:
    """Return a decorator that replaces a command's first parameter by those of `ask`, and runs it in `report_errors`.

    Arguments come before options, those of `ask` first: typer uses the order of the parameters.
    """
    source = inspect.signature(ask).parameters

    def asks(command: Command[Question, Parameters]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]

        @wraps(command)
        def asked(**options: Any) -> None:
            with report_errors():
                question = ask(**{name: options.pop(name) for name in source})
                command(question, **options)  # type: ignore[call-arg]

        ordered = sorted([*source.values(), *own], key=lambda each: each.default is not each.empty)
        asked.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        return asked

    return asks
