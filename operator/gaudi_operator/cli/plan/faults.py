"""The faults of a document: sentences for pydantic's validation errors.

A sentence names the field, its value and the fault.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gaudi_runtime.contract.text import safe_excerpt

MOST_FAULTS = 3
LONGEST_VALUE = 60

_STRUCTURES = {
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "text",
}
"""The required structure of a field by the type of pydantic's error. pydantic's own messages name types of Python."""


def describe_faults(error: ValidationError, parent_path: tuple[str, ...] = ()) -> str:
    """Return the first faults of a document as one sentence. `parent_path` is the path of the validated part."""
    return "; ".join(_fault_sentence(fault, parent_path) for fault in islice(error.errors(), MOST_FAULTS))


def _fault_sentence(error: ErrorDetails, parent_path: tuple[str, ...]) -> str:
    field_path = ".".join(safe_excerpt(str(part)) for part in (*parent_path, *error["loc"])) or "the document"
    value = error["input"]
    match error["type"]:
        case "missing":
            return f"{field_path} is missing"
        case "extra_forbidden":
            return f"{field_path} is not a field of this document; remove it"
        case "string_type" if isinstance(value, bool | int | float):
            text = _format_yaml_value(value)
            return f'{field_path} must be text, not {text}: write "{text}" with quotes'
        case error_type if error_type in _STRUCTURES:
            return f"{field_path} must be {_STRUCTURES[error_type]}, not {_describe_structure(value)}"
    return f"{field_path}: {error['msg'].removeprefix('Value error, ')}{_got_suffix(error)}"


def _describe_structure(value: object) -> str:
    """Return a description of a value with the wrong structure, or the value itself if the value is short."""
    match value:
        case None:
            return "empty"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    text = _format_yaml_value(value)
    return safe_excerpt(text) if len(text) <= LONGEST_VALUE and text.isprintable() else "text"


def _format_yaml_value(value: object) -> str:
    """Return a number, a boolean or a text as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _got_suffix(error: ErrorDetails) -> str:
    """Return ", got VALUE" for the end of a sentence; empty if the value is too long or already in the message."""
    value: Any = error["input"]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    text = str(value)
    mention = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", error["msg"])
    return "" if mention or len(text) > LONGEST_VALUE or not text.isprintable() else f", got {text}"
