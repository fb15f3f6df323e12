"""Text forms that several decisions share.

JSON with one text per value, the base of every hash that names or compares an object, and moments and whole numbers as
Kubernetes writes them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
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


_WHOLE = re.compile(r"-?[0-9]{1,10}")


def whole_number(text: object) -> int | None:
    """A number of 32 bits as an annotation or a label holds it; None for all else that somebody may write there."""
    number = int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None
