"""The picture is read back by a decoder of a few lines, so that a wrong file cannot pass."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.cli.heat.colours import BLACK, MISS, WHITE, colour, ink
from gaudi_operator.cli.heat.font import GLYPH_HEIGHT, GLYPH_WIDTH, glyph
from gaudi_operator.cli.heat.heat_map import MISS as NO_BUCKET
from gaudi_operator.cli.heat.heat_map import Cell, HeatMap
from gaudi_operator.cli.heat.picture import picture
from gaudi_operator.cli.heat.png import png

MAP = HeatMap("a title", "a caption", [1, 2], [128, 256], {(1, 128): Cell("12%", 0.5), (2, 128): NO_BUCKET}.get)


def pixels(data: bytes) -> list[list[tuple[int, ...]]]:
    """Rows of colours. Checks signature, order and checksum of the chunks."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, bits, kind_of_colour, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (bits, kind_of_colour, rest) == (8, 3, [0, 0, 0])
    palette = [tuple(chunks[b"PLTE"][at : at + 3]) for at in range(0, len(chunks[b"PLTE"]), 3)]
    raw = zlib.decompress(chunks[b"IDAT"])
    assert len(raw) == height * (width + 1)
    lines = [raw[at : at + width + 1] for at in range(0, len(raw), width + 1)]
    assert {line[0] for line in lines} == {0}
    return [[palette[index] for index in line[1:]] for line in lines]


def test_png_holds_its_pixels() -> None:
    assert pixels(png([b"\0\1", b"\1\1"], [WHITE, BLACK])) == [[WHITE, BLACK], [BLACK, BLACK]]


def test_png_of_too_many_colours_is_refused() -> None:
    with pytest.raises(ValueError, match="257 colours, a palette has at most 256"):
        png([b"\0"], [WHITE] * 257)


def test_picture_has_the_colour_of_every_cell() -> None:
    seen = {each for row in pixels(picture([MAP])) for each in row}
    assert {colour(0.5), MISS, BLACK, WHITE} <= seen


def test_pictures_stand_one_below_the_other() -> None:
    one, two = pixels(picture([MAP])), pixels(picture([MAP, MAP]))
    assert len(two) - len(one) == len(one) - 16  # without the second margin
    assert len(two[0]) == len(one[0])


def test_picture_of_a_large_map_stays_small() -> None:
    places = [(batch, length) for batch in range(1, 200) for length in range(1, 200)]
    large = HeatMap("large", "", range(1, 200), range(1, 200), {place: Cell("1", 0.3) for place in places}.get)
    drawn = pixels(picture([large]))
    assert len(drawn) < 2000
    assert len(drawn[0]) < 3000


@given(st.floats(0, 1))
def test_every_shade_can_be_read(heat: float) -> None:
    assert ink(colour(heat)) in (BLACK, WHITE)
    assert sum(abs(a - b) for a, b in zip(ink(colour(heat)), colour(heat), strict=True)) > 250


@pytest.mark.parametrize("letter", "ABCXYZ0189.,:;()%/*=-+_>? abc~")
def test_every_letter_has_its_size(letter: str) -> None:
    assert {len(row) for row in glyph(letter)} == {GLYPH_WIDTH}
    assert len(glyph(letter)) == GLYPH_HEIGHT


def test_small_letters_are_capitals_and_unknown_ones_question_marks() -> None:
    assert glyph("a") == glyph("A")
    assert glyph("~") == glyph("?")


def test_no_two_letters_look_alike() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;()%/*=-+_>? "
    assert len({glyph(letter) for letter in letters}) == len(letters)
