"""A line for every slow step, on stderr, so that stdout stays for what the caller reads."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

console = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Announce `what`, and say how many seconds it took, or that it failed."""
    console.print(f"[dim]…[/dim] {what}")
    started = time.monotonic()
    try:
        yield
    except BaseException:
        console.print(f"[red]✗[/red] {what}: stopped after {time.monotonic() - started:.1f} s")
        raise
    console.print(f"[green]✓[/green] {what} [dim]({time.monotonic() - started:.1f} s)[/dim]")
