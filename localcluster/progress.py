"""The steps in progress, on stderr, so that stdout has only results.

On a terminal, each running step is a line with its time. Elsewhere, a step writes a line at its beginning and its end.
The time left is estimated from the time of the same step on two cores (`seconds`), and is labelled as an estimate.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

console = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class RunningStep:
    """A step. `seconds` is its duration on two cores, or 0 if the step was not measured."""

    title: str
    seconds: float
    start: float

    def line(self, now: float) -> Text:
        """Return the line of the step with its time and the estimated time left."""
        elapsed = now - self.start
        estimate = f", {format_time_left(self.seconds - elapsed)}" if self.seconds else ""
        return Text.assemble(("… ", "dim"), self.title, (f" ({elapsed:.0f} s{estimate})", "dim"))


def format_time_left(seconds: float) -> str:
    """Return a text with the rounded time left, or a note if the step exceeds its estimate."""
    if seconds <= 0:
        return "longer than estimated"
    if seconds < 60:
        return f"about {max(10, round(seconds, -1)):.0f} s left (estimate)"
    return f"about {seconds / 60:.0f} min left (estimate)"


class Board:
    """The steps that run now. Any thread may begin and end steps."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without steps. `clock` returns seconds."""
        self._console, self._clock = console, clock
        self._running_steps: list[RunningStep] = []
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._total_seconds_left: Callable[[], float] | None = None

    @contextmanager
    def step(self, title: str, seconds: float = 0) -> Iterator[None]:
        """Show `title` during the block, and print its seconds or its failure."""
        running_step = RunningStep(title, seconds, self._clock())
        self._begin(running_step)
        try:
            yield
        except BaseException:
            self._end(running_step, "[red]✗[/red]", f": stopped after {self._clock() - running_step.start:.1f} s")
            raise
        self._end(running_step, "[green]✓[/green]", f" [dim]({self._clock() - running_step.start:.1f} s)[/dim]")

    @contextmanager
    def total(self, seconds_left: Callable[[], float]) -> Iterator[None]:
        """Show the time left of all steps during the block. `seconds_left` returns this time in seconds."""
        self._total_seconds_left = seconds_left
        try:
            yield
        finally:
            self._total_seconds_left = None

    def refresh(self) -> None:
        """Draw the running steps again, on a terminal."""
        if self._live is not None:
            self._live.refresh()

    def _begin(self, step: RunningStep) -> None:
        with self._lock:
            self._running_steps.append(step)
            if not self._console.is_terminal:
                estimate = f" [dim](about {step.seconds:.0f} s on two cores)[/dim]" if step.seconds else ""
                self._console.print(f"[dim]…[/dim] {step.title}{estimate}")
            elif self._live is None:
                self._live = Live(
                    get_renderable=self._lines, console=self._console, transient=True, redirect_stdout=False
                )
                self._live.start(refresh=True)

    def _end(self, step: RunningStep, mark: str, outcome: str) -> None:
        with self._lock:
            self._running_steps.remove(step)
            if self._live is not None and not self._running_steps:
                self._live.stop()
                self._live = None
            total = "" if self._console.is_terminal else self._total_text()
            self._console.print(f"{mark} {step.title}{outcome}{f' [dim]{total}[/dim]' if total else ''}")

    def _lines(self) -> RenderableType:
        now = self._clock()
        lines = [step.line(now) for step in list(self._running_steps)]
        return Group(*lines, *([Text(f"  {total}", style="dim")] if (total := self._total_text()) else []))

    def _total_text(self) -> str:
        seconds_left = self._total_seconds_left() if self._total_seconds_left else 0
        return f"in all {format_time_left(seconds_left)}" if seconds_left > 0 else ""


board = Board(console)
step = board.step
