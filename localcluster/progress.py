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
class Running:
    """A step. `seconds` is its duration on two cores, or 0 if the step was not measured."""

    what: str
    seconds: float
    started: float

    def line(self, now: float) -> Text:
        """Return the line of the step with its time and the estimated time left."""
        passed = now - self.started
        left = f", {about(self.seconds - passed)}" if self.seconds else ""
        return Text.assemble(("… ", "dim"), self.what, (f" ({passed:.0f} s{left})", "dim"))


def about(seconds: float) -> str:
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
        self._running: list[Running] = []
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._left_in_all: Callable[[], float] | None = None

    @contextmanager
    def step(self, what: str, seconds: float = 0) -> Iterator[None]:
        """Show `what` during the block, and print its seconds or its failure."""
        running = Running(what, seconds, self._clock())
        self._begin(running)
        try:
            yield
        except BaseException:
            self._end(running, "[red]✗[/red]", f": stopped after {self._clock() - running.started:.1f} s")
            raise
        self._end(running, "[green]✓[/green]", f" [dim]({self._clock() - running.started:.1f} s)[/dim]")

    @contextmanager
    def total(self, left: Callable[[], float]) -> Iterator[None]:
        """Show the time left of all steps during the block. `left` returns this time in seconds."""
        self._left_in_all = left
        try:
            yield
        finally:
            self._left_in_all = None

    def refresh(self) -> None:
        """Draw the running steps again, on a terminal."""
        if self._live is not None:
            self._live.refresh()

    def _begin(self, running: Running) -> None:
        with self._lock:
            self._running.append(running)
            if not self._console.is_terminal:
                estimate = f" [dim](about {running.seconds:.0f} s on two cores)[/dim]" if running.seconds else ""
                self._console.print(f"[dim]…[/dim] {running.what}{estimate}")
            elif self._live is None:
                self._live = Live(
                    get_renderable=self._lines, console=self._console, transient=True, redirect_stdout=False
                )
                self._live.start(refresh=True)

    def _end(self, running: Running, mark: str, remark: str) -> None:
        with self._lock:
            self._running.remove(running)
            if self._live is not None and not self._running:
                self._live.stop()
                self._live = None
            in_all = "" if self._console.is_terminal else self._in_all()
            self._console.print(f"{mark} {running.what}{remark}{f' [dim]{in_all}[/dim]' if in_all else ''}")

    def _lines(self) -> RenderableType:
        now = self._clock()
        lines = [running.line(now) for running in list(self._running)]
        return Group(*lines, *([Text(f"  {in_all}", style="dim")] if (in_all := self._in_all()) else []))

    def _in_all(self) -> str:
        left = self._left_in_all() if self._left_in_all else 0
        return f"in all {about(left)}" if left > 0 else ""


board = Board(console)
step = board.step
