"""The plan of now and the learned one for people."""

from rich.console import Console
from rich.table import Table

from gaudi_operator.cli.plan.contest_table import verdict_cells
from gaudi_operator.cli.plan.learning import Learned


def print_learned(found: Learned, console: Console) -> None:
    """Both plans, judged on the traffic that was learned from."""
    table = Table()
    for title in ("phase", "plan", "graphs", "padding", "covered"):
        table.add_column(title, justify="left" if title in ("phase", "plan") else "right")
    for phase, now in found.now.items():
        table.add_row(phase.value, "now", *verdict_cells(now))
        table.add_row(phase.value, "learned", *verdict_cells(found.learned[phase]))
    console.print("Both plans on the traffic that was learned from; padding 1.0 is none:")
    console.print(table)
