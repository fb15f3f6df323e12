"""A canvas of palette colours: rectangles, stripes and letters."""

from collections.abc import Iterable

from gaudi_operator.cli.heat.colours import Colour
from gaudi_operator.cli.heat.font import GLYPH_HEIGHT, GLYPH_WIDTH, glyph
from gaudi_operator.cli.heat.png import png

SCALE = 2
"""Pixels of the picture per pixel of a letter."""
LETTER = (GLYPH_WIDTH + 1) * SCALE
LINE = (GLYPH_HEIGHT + 3) * SCALE


class Canvas:
    """`width` x `height` pixels in the colour `background`; (0, 0) is the upper left corner."""

    def __init__(self, width: int, height: int, background: Colour) -> None:
        self._palette: dict[Colour, int] = {}
        self._rows = [bytearray([self._index(background)]) * width for _ in range(height)]

    def fill(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        """A rectangle of one colour."""
        line = bytes([self._index(colour)]) * width
        for row in self._rows[y : y + height]:
            row[x : x + width] = line

    def stripes(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        """A rectangle of slanted stripes over what is there."""
        index = self._index(colour)
        for number, row in enumerate(self._rows[y : y + height]):
            for column in range(x + (-number) % 6, x + width, 6):
                row[column] = index

    def write(self, x: int, y: int, text: str, colour: Colour) -> None:
        """Letters from the upper left corner on."""
        for number, letter in enumerate(text):
            for column, line in _dots(letter):
                self.fill(x + number * LETTER + column * SCALE, y + line * SCALE, SCALE, SCALE, colour)

    def png(self) -> bytes:
        """The picture as a file."""
        return png(self._rows, list(self._palette))

    def _index(self, colour: Colour) -> int:
        return self._palette.setdefault(colour, len(self._palette))


def text_width(text: str) -> int:
    """Pixels that a text takes."""
    return len(text) * LETTER


def _dots(letter: str) -> Iterable[tuple[int, int]]:
    return ((column, line) for line, dots in enumerate(glyph(letter)) for column, dot in enumerate(dots) if dot == "#")
