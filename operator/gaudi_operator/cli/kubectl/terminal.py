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

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_OF_A_PIPE)


def table(titles: Sequence[str], rows: Rows, numbers: Collection[str] = ()) -> "Table":
    """Return a table without borders for the terminal. The columns in `numbers` are aligned right.

    Long cells are wrapped instead of truncated.
    """
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for at, title in enumerate(titles):
        drawn.add_column(title, no_wrap=at > 0, overflow="fold", justify="right" if title in numbers else "left")
    for row in rows:
        drawn.add_row(*row)
    return drawn


def count_fitting_columns(titles: Sequence[str], rows: Rows, width: int) -> int:
    """Return the number of leading columns of a table that fit into a terminal of `width` characters."""
    widths = [max(len(title), *(row[at].cell_len for row in rows), 0) for at, title in enumerate(titles)]
    shown = len(titles)
    while shown > ALWAYS_SHOWN and sum(widths[:shown]) + GAP * (shown - 1) > width:
        shown -= 1
    return shown


def paragraphs(lines: Sequence[str]) -> Iterator["RenderableType"]:
    """Yield each line as a paragraph. If a terminal wraps the paragraph, all its lines keep the indent.

    A line without indent that ends with a colon is a title.
    """
    from rich.padding import Padding
    from rich.text import Text

    for line in lines:
        words = line.lstrip(" ")
        style = "bold" if line.endswith(":") and words == line else ""
        yield Padding(Text(words, style=style), (0, 0, 0, len(line) - len(words)), expand=False)
