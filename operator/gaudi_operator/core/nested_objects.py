"""Reading the blocks of a spec in rendered objects. A value may have any type until the API server refuses the object.

api/schema_keywords.py defines blocks. The functions treat a value of a wrong type as if it were missing.
"""

from collections.abc import Mapping
from typing import Any


def read_nested_object(parent: object, *path: str) -> Mapping[str, Any]:
    """Return the object at a path, or an empty object if there is none."""
    for name in path:
        parent = parent.get(name) if isinstance(parent, Mapping) else None
    return parent if isinstance(parent, Mapping) else {}


def read_nested_objects(parent: object, *path: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list at a path, or an empty list if there is none."""
    entries = read_nested_object(parent, *path[:-1]).get(path[-1])
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list | tuple) else []


def read_text(parent: object, *path: str) -> str:
    """Return the text at a path, or an empty text if there is none."""
    text = read_nested_object(parent, *path[:-1]).get(path[-1])
    return text if isinstance(text, str) else ""
