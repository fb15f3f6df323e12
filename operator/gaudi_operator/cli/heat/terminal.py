"""A heat map in a terminal: numbers on colours, and shaded characters where there are no colours."""

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gaudi_operator.cli.heat.colours import MISS, Colour, colour, ink
from gaudi_operator.cli.heat.heat_map import Cell, HeatMap

MAX_ROWS = 40
LABEL_WIDTH = 9
CELL_WIDTH = 7
SHADES = " ░▒▓█"


def print_maps(maps: Iterable[HeatMap]) -> None:
    """All maps, one below the other, on standard output."""
    console = Console()
    for heat_map in maps:
        console.print(heat_table(heat_map, console))


def heat_table(heat_map: HeatMap, console: Console) -> RenderableType:
    """The map as it fits the width of `console`, with title above and caption below."""
    columns = max(1, (console.width - LABEL_WIDTH) // CELL_WIDTH)
    shown = heat_map.thinned(columns, MAX_ROWS)
    table = Table(box=None, padding=0, pad_edge=False, show_edge=False)
    table.add_column("", justify="right", min_width=LABEL_WIDTH - 1, no_wrap=True)
    for batch in shown.batches:
        table.add_column(str(batch), justify="right", min_width=CELL_WIDTH, no_wrap=True)
    for length, cells in shown.rows():
        table.add_row(str(length), *(_cell(cell, plain=console.color_system is None) for cell in cells))
    return Group(Text(shown.title, style="bold"), table, Text(shown.caption, style="dim"), Text())


def _cell(cell: Cell | None, *, plain: bool) -> Text:
    if cell is None:
        return Text("·".rjust(CELL_WIDTH - 1), style="dim")
    if plain:
        return Text(f"{_shade(cell)}{cell.text:>{CELL_WIDTH - 2}}")
    background = MISS if cell.heat is None else colour(cell.heat)
    return Text(f"{cell.text:>{CELL_WIDTH - 1}} ", style=f"{_hex(ink(background))} on {_hex(background)}")


def _shade(cell: Cell) -> str:
    if cell.heat is None:
        return "!"
    return SHADES[min(int(cell.heat * len(SHADES)), len(SHADES) - 1)]


def _hex(value: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*value)
