"""The faults of a document: broken rules of the schema, and sentences for pydantic's validation errors.

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
from gaudi_runtime.errors import ConfigError

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


class SpecRefused(ConfigError):
    """The error for a document that the API server would refuse. `sentences` are the messages of the broken rules."""

    def __init__(self, sentences: tuple[str, ...], document: str = "the document") -> None:
        """Store the sentences and the name of the document."""
        super().__init__(f"the API server refuses {document}: {'; '.join(sentences)}")
        self.sentences = sentences
        self.document = document


def describe_faults(error: ValidationError, known: Iterable[str] = ()) -> str:
    """Return the first faults of a document as one sentence. `known` are the valid field names."""
    return "; ".join(fault_sentences(error.errors(), known=known))


def fault_sentences(
    items: Iterable[ErrorDetails], above: tuple[str, ...] = (), known: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return a sentence for each of the first faults.

    `above` is the path of the validated part in the document. `known` are the valid field names of this part.
    """
    return tuple(_fault_sentence(item, above, known) for item in islice(items, MOST_FAULTS))


def suggest_correction(name: object, known: Iterable[str]) -> str:
    """Return the correction of a misspelled name in a document: "did you mean NAME? "; empty if no name is similar."""
    close = get_close_matches(str(name), list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""


def _fault_sentence(item: ErrorDetails, above: tuple[str, ...], known: Iterable[str]) -> str:
    place = ".".join(safe_excerpt(str(part)) for part in (*above, *item["loc"])) or "the document"
    value, name = item["input"], str(item["loc"][-1]) if item["loc"] else ""
    match item["type"]:
        case "missing":
            return f"{place} is missing{_suggest_misspelling(name, value)}"
        case "extra_forbidden":
            return f"{place} is not a field of this document; {suggest_correction(name, known) or 'remove it'}".strip()
        case "string_type" if isinstance(value, bool | int | float):
            text = _format_yaml_value(value)
            return f'{place} must be text, not {text}: write "{text}" with quotes'
        case kind if kind in _STRUCTURES:
            return f"{place} must be {_STRUCTURES[kind]}, not {_describe_structure(value)}"
    return f"{place}: {item['msg'].removeprefix('Value error, ')}{_got_suffix(item)}"


def _describe_structure(value: object) -> str:
    """Return a description of a value with the wrong structure, or the value itself if the value is short."""
    match value:
        case None:
            return "empty"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    shown = _format_yaml_value(value)
    return safe_excerpt(shown) if len(shown) <= LONGEST_VALUE and shown.isprintable() else "text"


def _format_yaml_value(value: object) -> str:
    """Return a number, a boolean or a text as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _suggest_misspelling(field: str, given: object) -> str:
    """Return a suggestion if a name in `given` may be a misspelling of `field`; empty if no name is similar."""
    close = get_close_matches(field, [str(key) for key in given] if isinstance(given, Mapping) else (), n=1)
    return f", and {safe_excerpt(close[0])} is not a field: did you mean {field}?" if close else ""


def _got_suffix(item: ErrorDetails) -> str:
    """Return ", got VALUE" for the end of a sentence; empty if the value is too long or already in the message."""
    value: Any = item["input"]
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    shown = str(value)
    said = re.search(rf"(?<!\w){re.escape(shown)}(?!\w)", item["msg"])
    return "" if said or len(shown) > LONGEST_VALUE or not shown.isprintable() else f", got {shown}"
