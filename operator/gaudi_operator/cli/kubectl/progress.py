"""How the course of a rollout is shown: a bar on a terminal, a line for every news elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from gaudi_operator.cli.kubectl.verdict import Verdict


class Course:
    """Use as a context manager; every sentence is written once."""

    def __init__(self, console: Console) -> None:
        """A console that is no terminal gets lines alone."""
        self._console, self._said = console, ""
        text = TextColumn("{task.description}  ready {task.fields[ready]}  warm-up of the least advanced pod")
        self._bar = Progress(text, BarColumn(), TaskProgressColumn(), console=console, transient=True)
        self._task = self._bar.add_task("", total=100, ready="")

    def __enter__(self) -> Self:
        """Begin."""
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away; lines stay."""
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, verdict: Verdict) -> None:
        """Say what is new."""
        self._bar.update(
            self._task,
            refresh=self._console.is_terminal,
            description=verdict.phase,
            completed=verdict.percent,
            ready=verdict.ready,
        )
        if verdict.sentence != self._said:
            self._said = verdict.sentence
            self._console.print(self._said, markup=False, highlight=False, soft_wrap=True)
