"""Heat maps as one PNG, one below the other."""

from collections.abc import Sequence
from textwrap import wrap

from gaudi_operator.cli.heat.canvas import LINE, Canvas, text_width
from gaudi_operator.cli.heat.colours import BLACK, GREY, MISS, WHITE, Colour, colour, ink
from gaudi_operator.cli.heat.heat_map import Cell, HeatMap

MOST_COLUMNS, MOST_ROWS = 32, 64
MARGIN = 16
CELL_WIDTH, CELL_HEIGHT = text_width("0000.0"), LINE + 4
LABEL_WIDTH = text_width("00000000")
LEVELS = 200
"""Shades of heat: a palette has 256 colours and some are for letters and lines."""


def picture(maps: Sequence[HeatMap]) -> bytes:
    """The bytes of a PNG file. Maps that are too large are thinned, and their titles say so."""
    shown = [each.thinned(MOST_COLUMNS, MOST_ROWS) for each in maps]
    width = max(max(_width(each), text_width(line)) for each in shown for line in _words(each)) + 2 * MARGIN
    canvas = Canvas(width, sum(map(_height, shown)) + MARGIN, WHITE)
    top = MARGIN
    for each in shown:
        _draw(canvas, each, top)
        top += _height(each)
    return canvas.png()


def _draw(canvas: Canvas, heat_map: HeatMap, top: int) -> None:
    canvas.write(MARGIN, top, heat_map.title, BLACK)
    y = top + 2 * LINE
    for column, batch in enumerate(heat_map.batches):
        _right(canvas, _left(column), y - LINE + 4, str(batch), BLACK)
    for number, (length, cells) in enumerate(heat_map.rows()):
        line = y + number * CELL_HEIGHT
        _right(canvas, MARGIN + LABEL_WIDTH - CELL_WIDTH - 8, line + 5, str(length), BLACK)
        for column, cell in enumerate(cells):
            _draw_cell(canvas, _left(column), line, cell)
    caption = y + len(heat_map.lengths) * CELL_HEIGHT + 8
    for number, words in enumerate(_words(heat_map)[1:]):
        canvas.write(MARGIN, caption + number * LINE, words, BLACK)


def _draw_cell(canvas: Canvas, x: int, y: int, cell: Cell | None) -> None:
    if cell is None:
        canvas.fill(x, y, CELL_WIDTH - 1, CELL_HEIGHT - 1, GREY)
        return
    background = MISS if cell.heat is None else colour(round(cell.heat * LEVELS) / LEVELS)
    canvas.fill(x, y, CELL_WIDTH - 1, CELL_HEIGHT - 1, background)
    if cell.heat is None:
        canvas.stripes(x, y, CELL_WIDTH - 1, CELL_HEIGHT - 1, WHITE)
    _right(canvas, x, y + 5, cell.text, BLACK if cell.heat is None else ink(background))


def _right(canvas: Canvas, x: int, y: int, text: str, colour: Colour) -> None:
    """Text that ends where a cell that starts at `x` ends."""
    canvas.write(x + CELL_WIDTH - 4 - text_width(text), y, text, colour)


def _left(column: int) -> int:
    return MARGIN + LABEL_WIDTH + column * CELL_WIDTH


def _width(heat_map: HeatMap) -> int:
    return LABEL_WIDTH + len(heat_map.batches) * CELL_WIDTH


def _height(heat_map: HeatMap) -> int:
    return (2 + len(_words(heat_map))) * LINE + len(heat_map.lengths) * CELL_HEIGHT + MARGIN


def _words(heat_map: HeatMap) -> list[str]:
    """The title, then the caption in lines of at most 96 letters."""
    return [heat_map.title, *wrap(heat_map.caption, 96)]
