"""`kubectl gaudi rollout status`: waits until a rollout is over, and says by its exit code how it went."""

import re
import time
from collections.abc import Iterator
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from gaudi_operator.cli.kubectl.asking import Asked, Refused, asks
from gaudi_operator.cli.kubectl.verdict import Outcome, Verdict, judge
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.revision import stored_revisions

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_WATCH_SECONDS = 240.0
"""A watch is begun anew after so long: what stands between may cut it without a word."""
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


class Truth(StrEnum):
    """A flag as kubectl takes it: --watch=false."""

    TRUE = "true"
    FALSE = "false"


Watch = Annotated[Truth, typer.Option("-w", "--watch", help="Wait until the rollout is over.")]
Timeout = Annotated[str, typer.Option(help="Wait no longer than this, such as 90s or 5m; 0 waits without end.")]


@asks
def status(asked: Asked, watch: Watch = Truth.TRUE, timeout: Timeout = "0s") -> None:
    """Show how far a rollout is: exit code 0 when it is rolled out, 1 when it failed, was rolled back or timed out.

    With --watch=false also 0 while it is on its way.
    """
    from rich.console import Console

    limit = seconds(timeout)
    manifests = _followed(asked, limit) if watch is Truth.TRUE else iter([asked.cluster.inference(asked.name)])
    with RolloutProgress(Console()) as progress:
        for manifest in manifests:
            verdict = _judge(asked, manifest)
            if verdict.outcome is Outcome.FAILED:
                raise Refused(verdict.sentence)
            progress.show(verdict)
            if verdict.outcome is Outcome.DONE:
                return
    if watch is Truth.TRUE:
        raise Refused(f"timed out after {timeout}: {verdict.sentence}")


def _followed(asked: Asked, seconds: float) -> Iterator[Manifest]:
    """The resource now and after every change, until `seconds` are over; 0 never are."""
    deadline = time.monotonic() + (seconds or float("inf"))
    while True:
        yield asked.cluster.inference(asked.name)
        left = deadline - time.monotonic()
        if left <= 0:
            return
        yield from asked.cluster.changes(asked.name, min(left, LONGEST_WATCH_SECONDS))


def _judge(asked: Asked, manifest: Manifest) -> Verdict:
    return judge(manifest, stored_revisions(asked.cluster.revisions(asked.name)))


def seconds(text: str) -> float:
    """Seconds of a duration as kubectl reads them: 90s, 5m, 1h30m, or 0 for no end. Raises Refused otherwise."""
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise Refused(f"{text} is no duration: write one such as 90s, 5m or 1h30m")
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)


class RolloutProgress:
    """A bar on a terminal, a line for every news elsewhere. Use as a context manager; a sentence is written once."""

    def __init__(self, console: "Console") -> None:
        """A console that is no terminal gets lines alone."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

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
