"""Field descriptions in the CRD include bounds and default, because `kubectl explain` shows only descriptions."""

from typing import Any

import pytest

from gaudi_operator.api.crd import inference_crd
from gaudi_operator.api.descriptions import add_bounds_to_descriptions

SCHEMA = inference_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def described(field: dict[str, Any]) -> str:
    """Return the description of a field with these properties."""
    schema = add_bounds_to_descriptions({"type": "object", "properties": {"a": {"description": "A.", **field}}})
    return str(schema["properties"]["a"]["description"])


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9, "default": 3}, "A. Between 1 and 9. Default: 3."),
        ({"type": "integer", "maximum": 9}, "A. At most 9."),
        ({"type": "integer", "minimum": 0}, "A."),
        ({"type": "boolean", "default": False}, "A. Default: false."),
        ({"type": "string", "maxLength": 9, "default": "main"}, "A. Default: main."),
        ({"type": "string", "maxLength": 9, "default": "."}, "A. Default: '.'."),
        ({"description": "A. Default: 3.", "type": "integer", "maximum": 9}, "A. At most 9. Default: 3."),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, "A. At most 1 entry."),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 8}, "A. Between 1 and 8 entries."),
        ({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 8}, "A. At most 8 entries."),
        ({"type": "object", "properties": {}, "default": {"b": 1}}, "A."),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_description_ends_with_bounds_and_default(field: dict[str, Any], text: str) -> None:
    assert described(field) == text


def test_fields_of_list_entries_are_described() -> None:
    properties = {"b": {"type": "integer", "minimum": 0, "maximum": 1, "description": "B."}}
    schema = add_bounds_to_descriptions({"properties": {"a": {"type": "array", "items": {"properties": properties}}}})
    assert schema["properties"]["a"]["items"]["properties"]["b"]["description"] == "B. Between 0 and 1."


def test_crd_has_descriptions_with_bounds_and_default() -> None:
    engine = SCHEMA["properties"]["spec"]["properties"]["engine"]["properties"]
    assert engine["blockSize"]["description"] == "Number of tokens per KV block. Between 1 and 4096. Default: 128."


def test_every_description_is_a_sentence() -> None:
    found: list[str] = []

    def visit(path: str, node: dict[str, Any]) -> None:
        for name, field in node.get("properties", {}).items():
            text = field.get("description", "")
            if not (text[:1].isupper() and text.endswith(".")):
                found.append(f"{path}.{name}: {text}")
            visit(f"{path}.{name}", field)
        if "items" in node:
            visit(f"{path}[]", node["items"])

    visit("spec", SCHEMA["properties"]["spec"])
    visit("status", SCHEMA["properties"]["status"])
    assert found == []
