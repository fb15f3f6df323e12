"""Terminal output of `kubectl gaudi`: console, tables and paragraphs.

Lines are wrapped in a terminal, but not in a pipe.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

WIDTH_OF_A_PIPE = 10_000
"""The width of output into a pipe in characters, so that names are never broken or cut."""
ALWAYS_SHOWN = 3
"""The number of first columns that are shown in any terminal."""
GAP = 2

Rows = Sequence[Sequence["Text"]]


def create_console() -> "Console":
    """Return the console of `kubectl gaudi` on standard output: lines wrap in a terminal, but not in a pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_A_PIPE)


def table(titles: Sequence[str], rows: Rows, numeric_titles: Collection[str] = ()) -> "Table":
    """Return a table without borders for the terminal. The columns in `numeric_titles` are aligned right.

    Long cells are wrapped instead of truncated.
    """
    from rich.table import Table

    rich_table = Table(box=None, pad_edge=False, header_style="bold")
    for column, title in enumerate(titles):
        rich_table.add_column(
            title, no_wrap=column > 0, overflow="fold", justify="right" if title in numeric_titles else "left"
        )
    for row in rows:
        rich_table.add_row(*row)
    return rich_table


def count_fitting_columns(titles: Sequence[str], rows: Rows, width: int) -> int:
    """Return the number of leading columns of a table that fit into a terminal of `width` characters."""
    widths = [max(len(title), *(row[column].cell_len for row in rows), 0) for column, title in enumerate(titles)]
    column_count = len(titles)
    while column_count > ALWAYS_SHOWN and sum(widths[:column_count]) + GAP * (column_count - 1) > width:
        column_count -= 1
    return column_count


def paragraphs(lines: Sequence[str]) -> Iterator["RenderableType"]:
    """Yield each line as a paragraph. If a terminal wraps the paragraph, all its lines keep the indent.

    A line without indent that ends with a colon is a title.
    """
    from rich.padding import Padding
    from rich.text import Text

    for line in lines:
        stripped_line = line.lstrip(" ")
        style = "bold" if line.endswith(":") and stripped_line == line else ""
        yield Padding(Text(stripped_line, style=style), (0, 0, 0, len(line) - len(stripped_line)), expand=False)
