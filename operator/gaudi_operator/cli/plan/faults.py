"""The faults of a document: sentences for pydantic's validation errors.

A sentence names the field, its value, the fault, and the correction if it is known.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
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


def describe_faults(error: ValidationError, valid_names: Iterable[str] = ()) -> str:
    """Return the first faults of a document as one sentence. `valid_names` are the valid field names."""
    return "; ".join(fault_sentences(error.errors(), valid_names=valid_names))


def fault_sentences(
    errors: Iterable[ErrorDetails], parent_path: tuple[str, ...] = (), valid_names: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return a sentence for each of the first faults.

    `parent_path` is the path of the validated part in the document. `valid_names` are the valid field names of this
    part.
    """
    return tuple(_fault_sentence(error, parent_path, valid_names) for error in islice(errors, MOST_FAULTS))


def suggest_correction(name: object, valid_names: Iterable[str]) -> str:
    """Return the correction of a misspelled name in a document: "did you mean NAME? "; empty if no name is similar."""
    similar_names = get_close_matches(str(name), list(valid_names), n=1)
    return f"did you mean {similar_names[0]}? " if similar_names else ""


def _fault_sentence(error: ErrorDetails, parent_path: tuple[str, ...], valid_names: Iterable[str]) -> str:
    field_path = ".".join(safe_excerpt(str(part)) for part in (*parent_path, *error["loc"])) or "the document"
    value, name = error["input"], str(error["loc"][-1]) if error["loc"] else ""
    match error["type"]:
        case "missing":
            return f"{field_path} is missing"
        case "extra_forbidden":
            advice = suggest_correction(name, valid_names) or "remove it"
            return f"{field_path} is not a field of this document; {advice}".strip()
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
