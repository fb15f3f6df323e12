"""One scale of colours for terminal and picture: light and yellow is little, dark and violet is much."""

Colour = tuple[int, int, int]
"""Red, green, blue, each 0 to 255."""

_ANCHORS: tuple[Colour, ...] = ((255, 246, 211), (253, 196, 101), (226, 104, 62), (150, 36, 74), (62, 12, 66))
WHITE: Colour = (255, 255, 255)
BLACK: Colour = (24, 24, 28)
GREY: Colour = (222, 222, 226)
MISS: Colour = (86, 156, 214)
"""A miss is blue: no heat has this colour."""


def colour(heat: float) -> Colour:
    """The colour of a heat from 0 to 1."""
    position = min(max(heat, 0.0), 1.0) * (len(_ANCHORS) - 1)
    start = min(int(position), len(_ANCHORS) - 2)
    share = position - start
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(_ANCHORS[start], _ANCHORS[start + 1], strict=True))
    return red, green, blue


def ink(background: Colour) -> Colour:
    """Black or white, whichever can be read on it (relative luminance, ITU-R BT.709)."""
    red, green, blue = background
    return BLACK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 128 else WHITE
