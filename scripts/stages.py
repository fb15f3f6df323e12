"""Runs make targets in order and prints the time of each: `python -m scripts.stages lint unit`."""

import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table


def main(stages: list[str]) -> int:
    """Run the stages until one fails, and return its exit code."""
    results: list[tuple[str, str, float]] = []
    exit_code = 0
    for stage in stages:
        start = time.monotonic()
        exit_code = subprocess.run(["make", "--no-print-directory", stage], check=False).returncode
        results.append((stage, "[red]failed[/]" if exit_code else "[green]passed[/]", time.monotonic() - start))
        if exit_code:
            break
    print_results(results, skipped_stages=stages[len(results) :])
    return exit_code


def print_results(results: list[tuple[str, str, float]], skipped_stages: list[str]) -> None:
    """Print a table of the stages with their times, and the total time."""
    table = Table("stage", "outcome", title="Stages", title_justify="left")
    table.add_column("time", justify="right")
    for stage, outcome, seconds in results:
        table.add_row(stage, outcome, format_duration(seconds))
    for stage in skipped_stages:
        table.add_row(stage, "[dim]not run[/]", "")
    table.add_section()
    table.add_row("all", "", format_duration(sum(seconds for _, _, seconds in results)))
    Console(soft_wrap=True).print(table)


def format_duration(seconds: float) -> str:
    """Return a duration as minutes and seconds, such as 3:07."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
