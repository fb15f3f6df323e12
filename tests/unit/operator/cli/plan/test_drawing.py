"""Shades, colors and sizes of heat maps in a terminal and in SVG."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gaudi_operator.cli.plan.drawing import BLACK, WHITE, draw_svg, heat_colour, heat_table, text_colour
from gaudi_operator.cli.plan.heat import MISS, Cell, HeatMap

MAP = HeatMap("two buckets", "what it means", [1, 2], [128, 256], {(1, 128): Cell("12%", 0.9), (2, 128): MISS}.get)


def drawn(heat_map: HeatMap, *, width: int = 80, colour: bool = False) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, color_system="truecolor" if colour else None
    )
    console.print(heat_table(heat_map, console))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_heat_is_a_block_character_if_colors_are_disabled() -> None:
    assert drawn(MAP)[:4] == [
        "two buckets",
        "              1      2",
        "     128 █  12% ! none",
        "     256      ·      ·",
    ]


def test_heat_is_a_background_color_if_colors_are_enabled() -> None:
    assert "48;2;" in drawn(MAP, colour=True)[2]
    assert "█" not in drawn(MAP, colour=True)[2]


def test_map_of_many_batch_sizes_fits_the_width() -> None:
    wide = HeatMap("many", "", list(range(1, 257)), [128], {(n, 128): Cell("9.9G", 0.5) for n in range(1, 257)}.get)
    lines = drawn(wide, width=80)
    assert max(map(len, lines)) <= 80
    assert lines[0] == "many (shown: 10 of 256 batch sizes)"


def test_very_narrow_terminal_shows_the_largest_batch_size() -> None:
    lines = drawn(MAP, width=16)
    assert ["2"] in [line.split() for line in lines]
    assert ["128", "!", "none"] in [line.split() for line in lines]


@given(st.floats(0, 1))
def test_text_contrasts_with_every_heat_color(heat: float) -> None:
    assert text_colour(heat_colour(heat)) in (BLACK, WHITE)
    assert sum(abs(a - b) for a, b in zip(text_colour(heat_colour(heat)), heat_colour(heat), strict=True)) > 250


def test_svg_of_a_large_map_is_thinned() -> None:
    large = HeatMap("large", "", range(1, 200), range(1, 200), lambda _: Cell("1", 0.3))
    assert "32&#160;of&#160;199&#160;batch&#160;sizes,&#160;64&#160;of&#160;199&#160;lengths" in draw_svg([large])


def test_svg_wraps_a_long_caption() -> None:
    assert "the&#160;end" in draw_svg([HeatMap("long", "word " * 40 + "the end", [1], [128], {}.get)])


def test_svg_replaces_unprintable_characters_with_question_marks() -> None:
    picture = draw_svg([HeatMap("odd", "requests of \x1b[2J\udcff.csv", [1], [128], {}.get)])
    assert "requests&#160;of&#160;?[2J?.csv" in picture
