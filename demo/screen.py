"""The output of the demo: headlines, and the live table of warm-up."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from demo.resource import condition

console = Console(highlight=False)


def headline(number: int, what: str) -> None:
    """Print the headline of a step of the demo."""
    console.print(f"\n[bold cyan]{number}. {what}[/bold cyan]")


class LiveTable:
    """The resource's table, redrawn in place. Without a terminal, it is printed at every third of the warm-up."""

    def __init__(self) -> None:
        """Create the table without showing it."""
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._shown = ""

    def __enter__(self) -> Self:
        """Start to draw."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last state on the screen."""
        if self._live:
            self._live.stop()

    def show(self, state: dict[str, Any]) -> None:
        """Show a state of the resource."""
        if self._live:
            self._live.update(table(state))
        elif (step := _step(state)) != self._shown:
            self._shown = step
            console.print(table(state))


def table(state: dict[str, Any]) -> Group:
    """Return the resource's columns, one line per pod, and the message of its Ready condition."""
    status = state.get("status", {})
    pod_name = Column("POD", no_wrap=True, min_width=16)
    grid = Table(pod_name, "PHASE", "PROMPT%", "DECODE%", "WARMUP", "", "GATE", box=None, header_style="bold")
    for pod in status.get("pods", []):
        grid.add_row(*_row(pod, state["metadata"]["name"]))
    eta = (status.get("warmup") or {}).get("eta") or "-"
    facts = f"{status.get('phase', 'Pending')}  ready {status.get('ready', '-')}  ETA {eta}"
    summary = Text.assemble((f"{state['metadata']['name']}  ", "bold"), facts)
    return Group(summary, grid, Text(condition(state, "Ready")["message"], style="dim"))


def _row(pod: dict[str, Any], name: str) -> tuple[Any, ...]:
    captured = pod.get("capturedPercent", {})
    gate = Text("open", style="green") if pod.get("gate") else Text("closed", style="yellow")
    percent = pod.get("warmupPercent", 0)
    return (
        pod["name"].removeprefix(f"{name}-"),
        pod.get("phase", "").replace("ContainerCreating", "Creating"),
        _percent(captured.get("prompt")),
        _percent(captured.get("decode")),
        f"{percent}%",
        ProgressBar(total=100, completed=percent, width=16),
        gate,
    )


def _percent(value: int | None) -> str:
    return "-" if value is None else f"{value}%"


def _step(state: dict[str, Any]) -> str:
    status = state.get("status", {})
    pods = [(pod["name"], pod.get("gate"), pod.get("warmupPercent", 0) // 34) for pod in status.get("pods", [])]
    return f"{status.get('phase')} {status.get('ready')} {pods}"
