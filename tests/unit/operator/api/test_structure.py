"""Rules for every field of the generated schema."""

import re

import pytest

from gaudi_operator.api.schema_keywords import PRESERVE
from gaudi_operator.api.structural_schema import INT_OR_STRING, Schema
from gaudi_operator.core.inference import BLOCKS
from tests.unit.operator.api.schema_nodes import NODES, ROOT, SPEC, STATUS

KEYWORDS = {
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
}


def every(condition: str, found: list[str]) -> None:
    """Fail if `found` contains paths that violate `condition`."""
    assert not found, f"{condition}: {found}"


def kind(node: Schema) -> str:
    """Return the type of a node. An int-or-string node has the type `string`."""
    return "string" if INT_OR_STRING in node else str(node["type"])


def test_field_has_a_description() -> None:
    every(
        "no description", [path for path, node in NODES.items() if path[-1] not in "]}" and not node.get("description")]
    )


def test_description_is_a_sentence() -> None:
    texts = {path: node["description"] for path, node in NODES.items() if "description" in node}
    every("not a sentence", [path for path, text in texts.items() if not text.endswith(".") or "\n" in text])


def test_node_has_a_type_or_is_int_or_string() -> None:
    every("untyped", [path for path, node in NODES.items() if ("type" in node) == (INT_OR_STRING in node)])


def test_keyword_is_allowed_in_structural_schemas() -> None:
    foreign = {
        path: unknown
        for path, node in NODES.items()
        if (unknown := {key for key in node if not key.startswith("x-kubernetes-")} - KEYWORDS)
    }
    assert foreign == {}


def test_union_is_only_int_or_string() -> None:
    alternatives = [{"type": "integer"}, {"type": "string"}]
    every("a union", [path for path, node in NODES.items() if "anyOf" in node and node["anyOf"] != alternatives])


def test_object_has_fields_or_is_a_map() -> None:
    objects = {path: node for path, node in NODES.items() if node.get("type") == "object" and PRESERVE not in node}
    every(
        "both or neither",
        [p for p, node in objects.items() if ("properties" in node) == ("additionalProperties" in node)],
    )


def test_string_is_bounded() -> None:
    strings = {path: node for path, node in NODES.items() if kind(node) == "string" and "enum" not in node}
    every("unbounded", [path for path, node in strings.items() if "maxLength" not in node])


def test_list_is_bounded() -> None:
    every("unbounded", [path for path, node in NODES.items() if kind(node) == "array" and "maxItems" not in node])


def test_map_is_bounded() -> None:
    maps = {path: node for path, node in NODES.items() if "additionalProperties" in node}
    every("unbounded", [path for path, node in maps.items() if "maxProperties" not in node])


def test_number_of_the_spec_is_bounded() -> None:
    numbers = {path: node for path, node in SPEC.items() if kind(node) in ("integer", "number")}
    every("unbounded", [path for path, node in numbers.items() if not {"minimum", "maximum"} <= node.keys()])


def test_list_map_keys_are_required_fields() -> None:
    maps = {path: node for path, node in NODES.items() if node.get("x-kubernetes-list-type") == "map"}
    every(
        "key not required",
        [
            path
            for path, node in maps.items()
            if not set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"])
        ],
    )


def test_lists_with_several_writers_are_merged_by_key() -> None:
    merged = {path for path, node in NODES.items() if node.get("x-kubernetes-list-type") == "map"}
    assert merged == {
        "spec.engine.env",
        "spec.model.lora.adapters",
        "spec.pod.imagePullSecrets",
        "spec.pod.initContainers",
        "spec.pod.initContainers[].volumeMounts",
        "spec.pod.sidecars",
        "spec.pod.sidecars[].volumeMounts",
        "spec.pod.topologySpreadConstraints",
        "spec.pod.volumeMounts",
        "spec.pod.volumes",
        "status.conditions",
    }


def test_blocks_are_those_of_the_limit_in_size() -> None:
    blocks = {path.removeprefix("spec.").split("[]")[0] for path, node in NODES.items() if PRESERVE in node}
    assert {path.removesuffix(".valueFrom") for path in blocks} == {".".join(path) for path in BLOCKS}


def test_field_name_is_camel_case() -> None:
    of_kubernetes = {"ephemeral-storage"}
    names = {path.rpartition(".")[2] for path in NODES} - of_kubernetes
    every("not camelCase", [name for name in names if not re.fullmatch(r"[a-z][A-Za-z0-9]*(\[\]|\{\})*", name)])


def test_duration_names_its_unit() -> None:
    named = [path for path in SPEC if re.search(r"(timeout|period|delay|drain|observe|interval)$", path.lower())]
    every("a duration without Seconds", named)


NAMES_OF_THINGS = {
    "model.dtype": "number formats, as vLLM and torch call them",
    "model.kvCacheDtype": "number formats, as vLLM calls them",
    "model.quantization.method": "file formats and tools, as their projects call them",
    "accelerator.generation": "cards of the catalog, which has one called none",
    "engine.name": "programs",
}
"""Exceptions by the end of the path: names defined elsewhere are kept."""


def test_enum_value_is_upper_camel_case_or_a_name() -> None:
    every(
        "not UpperCamelCase",
        [
            f"{path} {value}"
            for path, node in NODES.items()
            if "enum" in node and not path.endswith(tuple(NAMES_OF_THINGS))
            for value in node["enum"]
            if not re.fullmatch(r"[A-Z][A-Za-z]*", value)
        ],
    )


def test_required_field_has_no_default() -> None:
    both = [
        f"{path}.{name}"
        for path, node in NODES.items()
        for name in node.get("required", [])
        if "default" in node["properties"][name]
    ]
    every("required with default", both)


def test_status_has_no_default() -> None:
    every("a default", [path for path, node in STATUS.items() if "default" in node])


def test_only_model_and_accelerator_are_required() -> None:
    assert SPEC["spec"]["required"] == ["model", "accelerator"]


def test_rule_has_a_sentence_without_final_stop() -> None:
    rules = [rule for node in (ROOT, *NODES.values()) for rule in node.get("x-kubernetes-validations", [])]
    assert len(rules) >= 40
    every(
        "not a sentence",
        [rule["rule"] for rule in rules if len(rule["message"].split()) < 4 or rule["message"].endswith(".")],
    )


def leading_field_path(message: str) -> str:
    """Return the path of the field that the message of a CEL rule begins with, or an empty path.

    If several fields share the type with the rule, the message names no field, because the API server adds the path.
    """
    match = re.match(r"(?:spec|status|metadata)(?:\.[a-z]\w*)+", message)
    return match[0] if match else ""


def test_rule_names_only_its_own_or_a_related_field() -> None:
    fields = {path.replace("[]", "") for path in NODES} | {"metadata.name"}
    named = [
        (path.replace("[]", ""), leading_field_path(rule["message"]), rule["message"])
        for path, node in (("", ROOT), *NODES.items())
        for rule in node.get("x-kubernetes-validations", [])
    ]
    assert {field for _, field, _ in named if field} <= fields
    every(
        "about another field",
        [message for path, field, message in named if not (field.startswith(path) or path.startswith(field))],
    )


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("type", {"maxLength": 316}),
        ("reason", {"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
        ("message", {"maxLength": 32768}),
        ("status", {"enum": ["True", "False", "Unknown"]}),
        ("lastTransitionTime", {"format": "date-time"}),
        ("observedGeneration", {"minimum": 0, "format": "int64"}),
    ],
)
def test_condition_equals_the_kubernetes_definition(name: str, bounds: Schema) -> None:
    assert bounds.items() <= STATUS[f"status.conditions[].{name}"].items()


def test_condition_requires_all_fields_except_observed_generation() -> None:
    required = {"type", "status", "reason", "message", "lastTransitionTime"}
    assert set(STATUS["status.conditions[]"]["required"]) == required
