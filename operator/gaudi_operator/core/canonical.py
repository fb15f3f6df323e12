"""One text per value: the base of every hash that names or compares an object."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any, digits: int = 10) -> str:
    """The first hex digits of the SHA-256 of a JSON value; fit for names and labels."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:digits]
