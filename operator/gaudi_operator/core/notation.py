"""Text forms that several decisions share.

JSON with one text per value, the base of every hash that names or compares an object; moments as Kubernetes writes
them; and Kubernetes quantities as exact numbers, so that "1Gi" and "1024Mi" are the same amount.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any, digits: int = 10) -> str:
    """The first hex digits of the SHA-256 of a JSON value; fit for names and labels."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:digits]


def digests(data: Any) -> dict[str, str]:
    """The content of a ConfigMap with the SHA-256 of each text in its place: what is kept and compared of it."""
    found = data if isinstance(data, Mapping) else {}
    return {name: hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest() for name, text in found.items()}


def sentence(text: str) -> str:
    """Words of somebody else on one line, cut to 600 characters, with a full stop."""
    text = " ".join(text.split())[:600]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_moment(text: object) -> datetime | None:
    """The moment that a text of the cluster says; None where there is none, or none to reckon with.

    The API server keeps years from 0 to 10,000 and, in the status of our resource, times without a zone.
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    # Years at both ends would overflow the sums that deadlines make of them.
    return found if found and found.tzinfo and 1 < found.year < 9999 else None


_FORM = re.compile(r"^([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_WHOLE = re.compile(r"-?[0-9]{1,10}")
_SCALES: dict[str | None, Fraction] = {
    None: Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> Fraction:
    """The amount in units (bytes, cores, pieces). ValueError when `text` is no quantity."""
    match = _FORM.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity such as 500m, 4 or 64Gi")
    return Fraction(match[1]) * _SCALES[match[2]]


def whole_number(text: object) -> int | None:
    """A number of 32 bits as an annotation or a label holds it; None for all else that somebody may write there."""
    number = int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None


def at_least(size: int) -> str:
    """The least memory quantity of at most four digits that holds `size` bytes: 3805, 16Ki, 1024Mi."""
    unit = next(unit for unit in (None, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei") if size <= 9999 * _SCALES[unit])
    return f"{ceil(size / _SCALES[unit])}{unit or ''}"


MOST_MEMORY = 2**60
"""Bytes of any device, and so KV blocks of any device."""


# A decision reads the same few a dozen times. Those of a spec are short: the schema bounds them.
@lru_cache(maxsize=1024)
def whole_bytes(text: str) -> int:
    """Bytes of a memory quantity, rounded down. ValueError when `text` is no quantity."""
    return int(parse_quantity(text))
