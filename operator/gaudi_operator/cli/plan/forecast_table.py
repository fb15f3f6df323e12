"""A forecast for people: the verdict, the figures, then where each one comes from."""

from rich.console import Console
from rich.table import Table

from gaudi_operator.cli.plan.forecasting import Foreseen
from gaudi_operator.cli.plan.launch import launch_lines
from gaudi_runtime.figure import Figure
from gaudi_runtime.forecast.result import PhaseForecast

GIB, MIB = 2**30, 2**20


def print_forecast(foreseen: Foreseen) -> None:
    """What fits, the table of figures with numbered sources, problems, advice, notes, and the command."""
    console, found = Console(), foreseen.forecast
    console.print(f"{found.model or 'a model of unknown shape'} on card {found.card}: an estimate", highlight=False)
    sources = _print_figures(console, foreseen)
    for phase in (found.prompt, found.decode):
        if phase:
            console.print(_graphs(phase), highlight=False)
    for problem in foreseen.problems:
        verdict = "does not fit" if foreseen.certain else "may not fit"
        console.print(f"{verdict}: {problem.message}", style="red", highlight=False)
    for change in foreseen.advice:
        console.print(f"would fit: {change.text}", style="green", highlight=False)
    for number, source in enumerate(sources, start=1):
        console.print(f"[{number}] {source}", markup=False, highlight=False)
    for note in (*found.notes, *foreseen.hints):
        console.print(note, markup=False, highlight=False)
    for line in launch_lines(foreseen.config):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_figures(console: Console, foreseen: Foreseen) -> list[str]:
    """The table; answers the sources in the order of their numbers."""
    sources: list[str] = []
    table = Table("figure", "estimate", "other sources", "sure", "source")
    for name, unit, figure in foreseen.figures():
        if figure.source not in sources:
            sources.append(figure.source)
        number = f"[{sources.index(figure.source) + 1}]"
        table.add_row(name, amount(figure.value, unit), _range(figure, unit), figure.confidence, f"\\{number}")
    console.print(table)
    return sources


def _range(figure: Figure, unit: str) -> str:
    if figure.least == figure.most:
        return ""
    return f"{amount(figure.least, unit)} to {amount(figure.most, unit)}"


def amount(value: float, unit: str) -> str:
    """A figure with its unit: bytes in GiB or MiB, seconds in minutes where there are many."""
    if unit == "blocks":
        return f"{int(value):,}"
    if unit == "seconds":
        return f"{value:.0f} s" if value < 120 else f"{value / 60:.1f} min"
    return f"{value / GIB:.2f} GiB" if value >= GIB else f"{value / MIB:.1f} MiB"


def _graphs(phase: PhaseForecast) -> str:
    if phase.captured is None:
        return f"{phase.phase}: {phase.planned} buckets"
    count, best = len(phase.captured), phase.captured_at_best
    more = f", {best} with the least bytes of any source" if best not in (None, count) else ""
    return f"{phase.phase}: {count} of {phase.planned} graphs captured ({phase.percent} %){more}"
