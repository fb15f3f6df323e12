"""Drawing of heat maps in a terminal or as SVG: numbers on colours, or shaded characters without colours."""

import re
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from gaudi_operator.cli.plan.heat import Cell, HeatMap

Colour = tuple[int, int, int]
"""A colour: red, green and blue, each 0 to 255."""

_ANCHORS: tuple[Colour, ...] = ((255, 246, 211), (253, 196, 101), (226, 104, 62), (150, 36, 74), (62, 12, 66))
"""The colour scale: light yellow for little heat, dark violet for much heat."""
WHITE: Colour = (255, 255, 255)
BLACK: Colour = (24, 24, 28)
MISS_COLOUR: Colour = (86, 156, 214)
"""The colour of a miss. It is blue, which is not on the colour scale."""

MAX_ROWS = 40
PICTURE_COLUMNS, PICTURE_ROWS, PICTURE_WIDTH = 32, 64, 80
"""The limits of an SVG: the most batch sizes, the most lengths, and the least characters per line of captions."""
LABEL_WIDTH = 9
CELL_WIDTH = 7
SHADES = " ░▒▓█"


def print_heat_maps(maps: Iterable[HeatMap]) -> None:
    """Draw all heat maps in the terminal, one below the other."""
    console = Console()
    for heat_map in maps:
        console.print(heat_table(heat_map, console))


def draw_svg(maps: Sequence[HeatMap]) -> str:
    """Return all heat maps as one SVG file, black on white, without external resources."""
    column_count = min(PICTURE_COLUMNS, max(len(heat_map.batch_sizes) for heat_map in maps))
    # Set every value that rich would otherwise read from the environment, so that the same maps always give the same
    # file.
    console = Console(
        file=StringIO(),
        record=True,
        width=max(PICTURE_WIDTH, LABEL_WIDTH + column_count * CELL_WIDTH),
        height=PICTURE_ROWS,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
        legacy_windows=False,
    )
    for heat_map in maps:
        console.print(heat_table(heat_map, console, PICTURE_ROWS))
    return remove_web_font(console.export_svg(title="gaudi-plan", theme=DEFAULT_TERMINAL_THEME))


def remove_web_font(svg: str) -> str:
    """Remove the web font from an SVG file of rich, so that viewers use their own monospace font."""
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def heat_table(heat_map: HeatMap, console: Console, max_rows: int = MAX_ROWS) -> RenderableType:
    """Return the terminal drawing of a heat map with its title and caption, fitted to the width of `console`."""
    max_columns = max(1, (console.width - LABEL_WIDTH) // CELL_WIDTH)
    downsampled_map = heat_map.downsample(max_columns, max_rows)
    table = Table(box=None, padding=0, pad_edge=False, show_edge=False)
    table.add_column("", justify="right", min_width=LABEL_WIDTH - 1, no_wrap=True)
    for batch_size in downsampled_map.batch_sizes:
        table.add_column(str(batch_size), justify="right", min_width=CELL_WIDTH, no_wrap=True)
    for length, cells in downsampled_map.rows():
        table.add_row(str(length), *(_cell_text(cell, monochrome=console.color_system is None) for cell in cells))
    return Group(
        Text(downsampled_map.title, style="bold"),
        table,
        Text(_replace_control_characters(downsampled_map.caption), style="dim"),
        Text(),
    )


def _replace_control_characters(caption: str) -> str:
    """Replace control characters in a caption by "?". Names of files and models may contain such characters."""
    return "".join(char if char.isprintable() else "?" for char in caption)


def _cell_text(cell: Cell | None, *, monochrome: bool) -> Text:
    if cell is None:
        return Text("·".rjust(CELL_WIDTH - 1), style="dim")
    if monochrome:
        shade = "!" if cell.heat is None else SHADES[min(int(cell.heat * len(SHADES)), len(SHADES) - 1)]
        return Text(f"{shade}{cell.text:>{CELL_WIDTH - 2}}")
    background = MISS_COLOUR if cell.heat is None else heat_colour(cell.heat)
    return Text(
        f"{cell.text:>{CELL_WIDTH - 1}} ", style=f"{_hex_code(text_colour(background))} on {_hex_code(background)}"
    )


def heat_colour(heat: float) -> Colour:
    """Return the colour in which a heat from 0 to 1 is drawn."""
    position = min(max(heat, 0.0), 1.0) * (len(_ANCHORS) - 1)
    index = min(int(position), len(_ANCHORS) - 2)
    share = position - index
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(_ANCHORS[index], _ANCHORS[index + 1], strict=True))
    return red, green, blue


def text_colour(background: Colour) -> Colour:
    """Return black or white, whichever is readable on the background (relative luminance, ITU-R BT.709)."""
    red, green, blue = background
    return BLACK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 128 else WHITE


def _hex_code(value: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*value)
