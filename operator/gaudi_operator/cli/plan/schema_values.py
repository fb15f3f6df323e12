"""Checks of a manifest against the GaudiInference schema, as in the API server.

The Pydantic models convert values, ignore unknown fields, and keep only the last of repeated entries. The API server
refuses such manifests, so `gaudi-plan` must find these faults.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gaudi_operator.api.schema import INT_OR_STRING, Schema
from gaudi_operator.cli.plan.faults import suggest_correction

_TYPES = {"string": str, "boolean": bool, "array": list, "object": Mapping}
_LIMITS = {"maxLength", "maxItems", "maxProperties"}
_NAMES = {"integer": "a number", "number": "a number", "boolean": "true or false"}


class UnknownField(NamedTuple):
    """A field that the models do not have. `suggestion` is "did you mean NAME? ", or empty if no name is similar."""

    path: str
    suggestion: str


def unknown_fields(node: Schema, raw: object, parsed: object, path: str) -> Iterator[UnknownField]:
    """Yield the fields of `raw` that the models do not have. `parsed` is the same value after parsing by the models."""
    if isinstance(raw, Mapping) and isinstance(parsed, Mapping):
        for key, value in raw.items():
            if key in parsed:
                yield from unknown_fields(_child_schema(node, key), value, parsed[key], f"{path}.{key}")
            else:
                yield UnknownField(f"{path}.{key}", suggest_correction(key, node.get("properties", ())))
    elif isinstance(raw, list) and isinstance(parsed, tuple):
        for number, (value, parsed_item) in enumerate(zip(raw, parsed, strict=True)):
            yield from unknown_fields(node.get("items", {}), value, parsed_item, f"{path}[{number}]")


def schema_violations(node: Schema, value: object, path: str) -> Iterator[str]:
    """Yield a sentence for each value that violates the schema although the models accept the value."""
    if not _has_type(node, value) and value is not None:
        expected = _NAMES.get(node.get("type", ""), "a whole number or text")
        actual = f"text: write {value} without quotes" if isinstance(value, str) else json.dumps(value)
        yield f"{path} must be {expected}, not {actual}"
    elif isinstance(value, str) and INT_OR_STRING in node and not re.search(node.get("pattern", ""), value):
        hint = f"; write {value} without quotes for a number" if value.isdigit() else ""
        yield f'{path}: "{value}" does not match {node["pattern"]}{hint}'
    elif isinstance(value, list):
        yield from _duplicate_violations(node.get("x-kubernetes-list-map-keys", ()), value, path)
        for number, item in enumerate(value):
            yield from schema_violations(node.get("items", {}), item, f"{path}[{number}]")
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from schema_violations(_child_schema(node, key), child, f"{path}.{key}")


def prevents_rule_evaluation(node: Schema, value: object) -> bool:
    """Return True if a value has a wrong type, lacks a field, is too long or is not in its enumeration.

    The API server then evaluates no rule of the object, and reports "some validation rules were not checked". Other
    faults, for example a number out of bounds or a text that does not match its pattern, do not prevent the evaluation.
    """
    if not node:
        # The schema does not contain this field. Do not recurse into its value, which may be nested too deeply.
        return False
    if not _has_type(node, value) or ("enum" in node and value not in node["enum"]):
        return True
    if isinstance(value, str | list | Mapping) and any(len(value) > node[limit] for limit in _LIMITS & node.keys()):
        return True
    if isinstance(value, list):
        return any(prevents_rule_evaluation(node.get("items", {}), item) for item in value)
    if not isinstance(value, Mapping):
        return False
    children = {key: child for key, child in value.items() if child is not None}
    return not _required_fields(node) <= children.keys() or any(
        prevents_rule_evaluation(_child_schema(node, key), child) for key, child in children.items()
    )


def _required_fields(node: Schema) -> set[str]:
    """Return the required fields for which the API server has no default."""
    return {name for name in node.get("required", ()) if "default" not in node["properties"][name]}


def _has_type(node: Schema, value: object) -> bool:
    if INT_OR_STRING in node:
        return isinstance(value, str) or _is_integer(value)
    type_name = node.get("type")
    if type_name in ("integer", "number"):
        return _is_integer(value) or (type_name == "number" and isinstance(value, float))
    return type_name is None or isinstance(value, _TYPES[type_name])


def _is_integer(value: object) -> bool:
    """Return True if a value is an integer of at most 64 bits. A float without a fraction, such as 4.0, also counts."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < 2**53
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _child_schema(node: Schema, key: object) -> Schema:
    schema: Schema = node.get("properties", {}).get(key) or node.get("additionalProperties") or {}
    return schema


def _duplicate_violations(keys: Iterable[str], entries: list[Any], path: str) -> Iterator[str]:
    seen_keys: list[dict[str, Any]] = []
    for number, entry in enumerate(entries):
        key = {name: entry[name] for name in keys if name in entry}
        if key and key in seen_keys:
            key_names = " and ".join(keys)
            yield f"{path}[{number}]: {json.dumps(key)} is a duplicate; each entry needs its own {key_names}"
        seen_keys.append(key)
