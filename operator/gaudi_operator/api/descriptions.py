"""Descriptions for `kubectl explain`, which does not show defaults or bounds."""

from typing import Any

from gaudi_operator.api.structural_schema import Schema, map_child_schemas

_LENGTHS = {"array": ("minItems", "maxItems"), "object": ("minProperties", "maxProperties")}


def add_bounds_to_descriptions(schema: Schema) -> Schema:
    """Return the schema with the bounds and the default of each field at the end of its description."""
    node = map_child_schemas(schema, add_bounds_to_descriptions)
    fields = node.get("properties", {})
    return (
        node | {"properties": {name: _extend_description(field) for name, field in fields.items()}} if fields else node
    )


def _extend_description(field: Schema) -> Schema:
    # If the operator fills in a default, the description ends with the sentence "Default: …".
    text, separator, default = field.get("description", "").partition(" Default: ")
    sentences = (text, _bounds_sentence(field), f"{separator}{default}".strip() or _default_sentence(field))
    description = " ".join(sentence for sentence in sentences if sentence)
    return field | {"description": description} if description else field


def _bounds_sentence(field: Schema) -> str:
    """Return the bounds of a number or of the length of a list or map."""
    kind = field.get("type", "")
    if kind in _LENGTHS:
        lower, upper = (field.get(keyword) for keyword in _LENGTHS[kind])
        return "" if upper is None else _format_bounds(lower, upper, " entry" if upper == 1 else " entries")
    lower, upper = field.get("minimum"), field.get("maximum")
    return "" if upper is None or kind not in ("integer", "number") else _format_bounds(lower, upper)


def _format_bounds(lower: Any, upper: Any, unit: str = "") -> str:
    return f"At most {upper}{unit}." if lower is None else f"Between {lower} and {upper}{unit}."


def _default_sentence(field: Schema) -> str:
    default: Any = field.get("default")
    if default is None or "properties" in field:
        return ""
    if isinstance(default, bool):
        return f"Default: {str(default).lower()}."
    return f"Default: {default if str(default).isalnum() else repr(default)}."
