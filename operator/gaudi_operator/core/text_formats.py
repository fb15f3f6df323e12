"""Text forms that several decisions share: canonical JSON, hashes, timestamps and integers.

Canonical JSON has one text per value and is the base of every hash that names or compares an object.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def canonical_json(value: Any) -> str:
    """Return the canonical text of a JSON value, with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any, digits: int = 10) -> str:
    """Return the hash of a JSON value as short text for names and labels: the first hex digits of its SHA-256."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:digits]


def hash_texts(data: Any) -> dict[str, str]:
    """Return the data of a ConfigMap with each text replaced by its SHA-256, for comparison."""
    found = data if isinstance(data, Mapping) else {}
    return {name: hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest() for name, text in found.items()}


def one_sentence(text: str) -> str:
    """Return external text in the format of a sentence: one line of at most 600 characters with a full stop."""
    text = " ".join(text.split())[:600]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def timestamp(moment: datetime) -> str:
    """Return a time as text in the format of Kubernetes, in UTC and whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: object) -> datetime | None:
    """Return the time in a timestamp of the API server, or None if it is missing, invalid or out of range.

    The API server accepts years from 0 to 10,000 and, in the status of a GaudiInference, times without a zone.
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    # Adding a deadline to the first or last possible year would overflow.
    return found if found and found.tzinfo and 1 < found.year < 9999 else None


_WHOLE = re.compile(r"-?[0-9]{1,10}")


def parse_int32(text: object) -> int | None:
    """Return the 32-bit integer in the text of an annotation or a label, or None for any other text."""
    number = int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None
