"""Text formats that several decisions share: canonical JSON, hashes, timestamps and integers.

Canonical JSON has exactly one text per value. Every hash that names or compares an object is a hash of this text.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def format_canonical_json(value: Any) -> str:
    """Return the canonical text of a JSON value, with sorted keys and no blanks. Equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_text_hash(value: Any, digits: int = 10) -> str:
    """Return a short hash of a JSON value for names and labels: the first hex digits of its SHA-256."""
    return hashlib.sha256(format_canonical_json(value).encode()).hexdigest()[:digits]


def hash_texts(data: Any) -> dict[str, str]:
    """Return the data of a ConfigMap with each text replaced by its SHA-256, for comparison."""
    texts = data if isinstance(data, Mapping) else {}
    return {name: hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest() for name, text in texts.items()}


def format_sentence(text: str) -> str:
    """Return an external text as a sentence: one line of at most 600 characters with a full stop."""
    text = " ".join(text.split())[:600]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def format_timestamp(moment: datetime) -> str:
    """Return a time in the text format of Kubernetes: UTC and whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp_text(text: object) -> datetime | None:
    """Return the time from a timestamp of the API server, or None if it is missing, invalid or out of range.

    The API server accepts years from 0 to 10,000. In the status of a GaudiInference, it also accepts times without a
    zone.
    """
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    # Reject the first and the last year, because adding a deadline to such a time would overflow.
    return moment if moment and moment.tzinfo and 1 < moment.year < 9999 else None


_WHOLE = re.compile(r"-?[0-9]{1,10}")


def parse_int32_text(text: object) -> int | None:
    """Return the 32-bit integer in the text of an annotation or a label, or None if the text is no such integer."""
    number = int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None
