"""Runs make targets in order and prints the time of each: `python -m scripts.stages lint unit`."""

import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table


def main(stages: list[str]) -> int:
    """Run the stages until one fails, and return its exit code."""
    took: list[tuple[str, str, float]] = []
    code = 0
    for stage in stages:
        start = time.monotonic()
        code = subprocess.run(["make", "--no-print-directory", stage], check=False).returncode
        took.append((stage, "[red]failed[/]" if code else "[green]passed[/]", time.monotonic() - start))
        if code:
            break
    show(took, left_out=stages[len(took) :])
    return code


def show(took: list[tuple[str, str, float]], left_out: list[str]) -> None:
    """Print a table of the stages with their times, and the total time."""
    table = Table("stage", "outcome", title="Stages", title_justify="left")
    table.add_column("time", justify="right")
    for stage, outcome, seconds in took:
        table.add_row(stage, outcome, clock(seconds))
    for stage in left_out:
        table.add_row(stage, "[dim]not run[/]", "")
    table.add_section()
    table.add_row("all", "", clock(sum(seconds for _, _, seconds in took)))
    Console(soft_wrap=True).print(table)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, such as 3:07."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
