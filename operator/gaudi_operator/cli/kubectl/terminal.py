"""Terminal output of `kubectl gaudi`: console, tables and paragraphs.

Lines are wrapped in a terminal, but not in a pipe.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

WIDTH_OF_A_PIPE = 10_000
"""The width of output into a pipe in characters, so that names are never broken or cut."""

Rows = Sequence[Sequence["Text"]]


def terminal_console() -> "Console":
    """Return the console of `kubectl gaudi` on standard output: lines wrap in a terminal, but not in a pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_A_PIPE)


def terminal_table(titles: Sequence[str], rows: Rows) -> "Table":
    """Return a table without borders for the terminal. Long cells are wrapped instead of truncated."""
    from rich.table import Table

    rich_table = Table(box=None, pad_edge=False, header_style="bold")
    for column, title in enumerate(titles):
        rich_table.add_column(title, no_wrap=column > 0, overflow="fold")
    for row in rows:
        rich_table.add_row(*row)
    return rich_table


def terminal_paragraphs(lines: Sequence[str]) -> Iterator["RenderableType"]:
    """Yield each line as a paragraph. If a terminal wraps the paragraph, all its lines keep the indent.

    A line without indent that ends with a colon is a title.
    """
    from rich.padding import Padding
    from rich.text import Text

    for line in lines:
        stripped_line = line.lstrip(" ")
        style = "bold" if line.endswith(":") and stripped_line == line else ""
        yield Padding(Text(stripped_line, style=style), (0, 0, 0, len(line) - len(stripped_line)), expand=False)
