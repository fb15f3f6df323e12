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


def print_headline(number: int, title: str) -> None:
    """Print the headline of a step of the demo."""
    console.print(f"\n[bold cyan]{number}. {title}[/bold cyan]")


class LiveTable:
    """The resource's table, redrawn in place. Without a terminal, it is printed at every third of the warm-up."""

    def __init__(self) -> None:
        """Create the table without showing it."""
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._last_progress = ""

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
        elif (progress := _coarse_progress(state)) != self._last_progress:
            self._last_progress = progress
            console.print(table(state))


def table(state: dict[str, Any]) -> Group:
    """Return the resource's columns, one line per pod, and the message of its Ready condition."""
    status = state.get("status", {})
    pod_name = Column("POD", no_wrap=True, min_width=16)
    grid = Table(pod_name, "PHASE", "PROMPT%", "DECODE%", "WARMUP", "", "GATE", box=None, header_style="bold")
    for pod in status.get("pods", []):
        grid.add_row(*_row(pod, state["metadata"]["name"]))
    eta = (status.get("warmup") or {}).get("eta") or "-"
    ready = condition(state, "Ready")
    details = f"{ready['reason']}  ready {_ready_replicas(state)}  ETA {eta}"
    summary = Text.assemble((f"{state['metadata']['name']}  ", "bold"), details)
    return Group(summary, grid, Text(ready["message"], style="dim"))


def _row(pod: dict[str, Any], resource_name: str) -> tuple[Any, ...]:
    captured_percent = pod.get("capturedPercent", {})
    gate = Text("open", style="green") if pod.get("gate") else Text("closed", style="yellow")
    warmup_percent = pod.get("warmupPercent", 0)
    return (
        pod["name"].removeprefix(f"{resource_name}-"),
        pod.get("phase", "").replace("ContainerCreating", "Creating"),
        _percent(captured_percent.get("prompt")),
        _percent(captured_percent.get("decode")),
        f"{warmup_percent}%",
        ProgressBar(total=100, completed=warmup_percent, width=16),
        gate,
    )


def _percent(value: int | None) -> str:
    return "-" if value is None else f"{value}%"


def _coarse_progress(state: dict[str, Any]) -> str:
    status = state.get("status", {})
    pods = [(pod["name"], pod.get("gate"), pod.get("warmupPercent", 0) // 34) for pod in status.get("pods", [])]
    return f"{condition(state, 'Ready')['reason']} {_ready_replicas(state)} {pods}"


def _ready_replicas(state: dict[str, Any]) -> str:
    return f"{state.get('status', {}).get('readyReplicas', 0)}/{state['spec'].get('replicas', 1)}"
