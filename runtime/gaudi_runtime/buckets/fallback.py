"""Rounding for a batch that met no bucket (docs/bucketing.md, Misses)."""

import math


def fallback(value: int, base: int) -> int:
    """Round `value` up to a multiple of ceil(cube root of value) * base; 0 and 1 stay.

    The cube root makes the rounding coarser for larger values, so few distinct shapes arise.
    """
    if value <= 1:
        return value
    step = _ceil_cube_root(value) * base
    return -(-value // step) * step


def _ceil_cube_root(value: int) -> int:
    root = round(math.cbrt(value))
    while root**3 < value:
        root += 1
    while (root - 1) ** 3 >= value:
        root -= 1
    return root
