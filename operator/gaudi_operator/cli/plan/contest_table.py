"""A contest for people: one row per strategy, padding and graphs of both phases."""

from rich.console import Console
from rich.table import Table

from gaudi_operator.cli.plan.contest import Contest, Judged
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.traffic.judge import Verdict


def print_contest(contest: Contest) -> None:
    """The table, what one more graph would bring, and who could not take part."""
    console = Console()
    table = Table(title="padding is padded / real cost: 1.0 is none")
    table.add_column("strategy", no_wrap=True)
    for phase in BucketPhase:
        for title in ("graphs", "padding", "covered"):
            table.add_column(f"{phase} {title}", justify="right", min_width=len("padding"))
    for strategy, phases in contest.judged.items():
        table.add_row(strategy.value, *(cell for phase in BucketPhase for cell in _cells(phases.get(phase))))
    console.print(table)
    for phases in contest.judged.values():
        for phase, judged in phases.items():
            if judged.next_graph is not None and judged.expected is not None:
                console.print(
                    f"{phase}: optimal expected {judged.expected:.3f}; one more graph lowers that by about "
                    f"{judged.next_graph:.4f}"
                )
    for name, why in contest.refused.items():
        console.print(f"{name}: {why}")


def _cells(judged: Judged | None) -> tuple[str, str, str]:
    if judged is None:
        return "-", "-", "-"
    return verdict_cells(judged.verdict)


def verdict_cells(verdict: Verdict) -> tuple[str, str, str]:
    """Graphs, padding and coverage."""
    padding = "-" if verdict.padding is None else f"{verdict.padding:.3f}"
    coverage = "-" if verdict.coverage is None else f"{verdict.coverage:.1%}"
    return str(verdict.graphs), padding, coverage
