"""Kubernetes quantities as exact numbers, so that "1Gi" and "1024Mi" are the same amount."""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_FORM = re.compile(
    r"^\+?((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?0*[0-9]{1,2})?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
)
_SCALES: dict[str | None, Fraction] = {
    None: Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> Fraction:
    """Return the amount in base units (bytes, cores, pieces). Raises ValueError if `text` is not a quantity."""
    match = _FORM.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 4 or 64Gi")
    return Fraction(match[1]) * _SCALES[match[2]]


def format_memory_quantity(size: int) -> str:
    """Return `size` bytes as a memory quantity of at most four digits, rounded up: 3805, 16Ki, 1024Mi."""
    unit = next(unit for unit in (None, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei") if size <= 9999 * _SCALES[unit])
    return f"{ceil(size / _SCALES[unit])}{unit or ''}"


MOST_MEMORY = 2**60
"""The maximum memory of any device in bytes, and thus the maximum number of KV cache blocks."""


# Cache the result, because a decision parses the same few quantities many times. The schema limits the length of the
# keys.
@lru_cache(maxsize=1024)
def parse_byte_quantity(text: str) -> int:
    """Return a memory quantity in bytes, rounded down. Raises ValueError if `text` is not a quantity."""
    return int(parse_quantity(text))
