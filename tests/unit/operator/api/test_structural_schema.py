"""The rewrites that turn a JSON schema into a structural schema, one fact per test."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, StringConstraints, create_model

from gaudi_operator.api.base import ApiModel, Labels, Quantity
from gaudi_operator.api.schema_keywords import SchemaRule, schema_config_with_rules
from gaudi_operator.api.structural_schema import (
    Schema,
    StructuralSchemaError,
    structural_schema,
    structural_status_schema,
)

Short = Annotated[str, Field(max_length=8)]


def field(annotation: Any, default: Any = ...) -> Schema:
    """Return the structural schema of one field."""
    model = create_model("Holder", __base__=ApiModel, value=(annotation, default))
    properties: dict[str, Schema] = structural_schema(model)["properties"]
    return properties["value"]


class Colour(StrEnum):
    """An enum of colours."""

    RED = "red"
    BLUE = "blue"


class Inner(ApiModel):
    """A model with defaults."""

    size: int = 3
    name: Short | None = None


class Outer(ApiModel):
    """A model with a nested model that has defaults."""

    inner: Inner = Inner()


class Bare(ApiModel):
    """A model without defaults."""

    name: Short | None = None
    tags: Annotated[tuple[Short, ...], Field(max_length=2)] = ()


class Guarded(ApiModel):
    """A model with a validation rule."""

    model_config = schema_config_with_rules(
        SchemaRule(rule="self.low <= self.high", message="low must be at most high")
    )
    low: int
    high: int


def test_reference_is_inlined() -> None:
    assert field(Inner)["properties"]["size"]["default"] == 3


def test_description_of_a_field_replaces_that_of_its_model() -> None:
    assert field(Inner, Field(description="Mine."))["description"] == "Mine."


def test_description_of_a_model_is_the_fallback() -> None:
    assert field(Inner)["description"] == "A model with defaults."


def test_schema_title_is_removed_and_a_field_named_title_kept() -> None:
    schema = structural_schema(create_model("Book", __base__=ApiModel, title=(Short, ...)))
    assert schema["properties"] == {"title": {"type": "string", "maxLength": 8}}
    assert "title" not in schema


def test_optional_field_has_the_plain_type_and_no_default() -> None:
    assert field(Short | None, None) == {"type": "string", "maxLength": 8}


def test_optional_enum_keeps_its_values() -> None:
    assert field(Colour | None, None)["enum"] == ["red", "blue"]


def test_optional_model_has_no_default() -> None:
    assert "default" not in field(Inner | None, None)


def test_required_fields_are_listed_by_json_name() -> None:
    schema = structural_schema(create_model("Holder", __base__=ApiModel, two_words=(int, ...), other=(int, 1)))
    assert schema["required"] == ["twoWords"]


def test_integer_or_text_union_has_both_bounds() -> None:
    percent = Annotated[int, Field(ge=0)] | Annotated[str, StringConstraints(max_length=4, pattern="%$")]
    assert field(percent, 1) == {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "minimum": 0,
        "maxLength": 4,
        "pattern": "%$",
        "default": 1,
    }


def test_quantity_is_int_or_string_with_its_pattern() -> None:
    schema = field(Quantity | None, None)
    assert schema["x-kubernetes-int-or-string"] is True
    assert schema["pattern"].startswith("^[0-9]+")
    assert "type" not in schema


def test_union_of_other_types_is_refused() -> None:
    with pytest.raises(StructuralSchemaError, match=r"\['boolean', 'integer'\] cannot be a union"):
        field(int | bool)


def test_literal_is_an_enum_with_one_value() -> None:
    assert field(Literal["v1"], "v1") == {"type": "string", "enum": ["v1"], "default": "v1"}


def test_exclusive_minimum_is_a_boolean_next_to_minimum() -> None:
    schema = field(Annotated[float, Field(gt=0, le=1)])
    assert (schema["minimum"], schema["exclusiveMinimum"], schema["maximum"]) == (0, True, 1)


def test_exclusive_maximum_is_a_boolean_next_to_maximum() -> None:
    schema = field(Annotated[float, Field(ge=0, lt=1)])
    assert (schema["maximum"], schema["exclusiveMaximum"]) == (1, True)


def test_tuple_is_a_list_of_fixed_length() -> None:
    schema = field(tuple[int, int, int])
    assert (schema["minItems"], schema["maxItems"], schema["items"]["type"]) == (3, 3, "integer")
    assert "prefixItems" not in schema


def test_mixed_tuple_is_refused() -> None:
    with pytest.raises(StructuralSchemaError, match="a tuple with members of several types"):
        field(tuple[int, Short])


def test_map_schema_constrains_only_its_values() -> None:
    schema = field(Annotated[dict[Short, Short], Field(max_length=2)])
    assert schema == {
        "type": "object",
        "maxProperties": 2,
        "additionalProperties": {"type": "string", "maxLength": 8},
    }


def test_map_with_a_key_pattern_keeps_the_value_schema() -> None:
    key = Annotated[str, StringConstraints(pattern="^[A-Z]+$")]
    assert field(Annotated[dict[key, Short], Field(max_length=2)])["additionalProperties"]["maxLength"] == 8


def test_labels_have_a_validation_rule_for_keys() -> None:
    assert "every key must be a name" in field(Labels)["x-kubernetes-validations"][0]["message"]


def test_list_is_atomic_by_default() -> None:
    numbers = Annotated[tuple[int, ...], Field(max_length=2)]
    by_name = Annotated[tuple[int, ...], Field(max_length=2, json_schema_extra={"x-kubernetes-list-type": "set"})]
    assert field(numbers)["x-kubernetes-list-type"] == "atomic"
    assert field(by_name)["x-kubernetes-list-type"] == "set"


@pytest.mark.parametrize(("most", "width"), [(2**31 - 1, "int32"), (2**31, "int64")])
def test_integer_format_depends_on_its_bounds(most: int, width: str) -> None:
    assert field(Annotated[int, Field(le=most)])["format"] == width


def test_unbounded_integer_is_int64() -> None:
    assert field(int)["format"] == "int64"


def test_number_is_a_double() -> None:
    assert field(float)["format"] == "double"


def test_false_and_zero_defaults_are_kept() -> None:
    assert field(bool, False)["default"] is False
    assert field(int, 0)["default"] == 0


def test_default_of_an_object_consists_of_its_field_defaults() -> None:
    assert field(Inner, Inner())["default"] == {"size": 3}


def test_default_of_a_nested_object_is_complete_on_every_level() -> None:
    schema = field(Outer, Outer())
    assert schema["default"] == {"inner": {"size": 3}}
    assert schema["properties"]["inner"]["default"] == {"size": 3}


def test_empty_default_is_dropped() -> None:
    assert "default" not in field(Bare, Bare())
    assert "default" not in field(Annotated[dict[Short, Short], Field(max_length=2)], {})


def test_object_default_different_from_field_defaults_is_refused() -> None:
    with pytest.raises(StructuralSchemaError, match=r"must be that of its fields \{'size': 3\}, not \{'size': 4\}"):
        field(Inner, Inner(size=4))


@pytest.mark.parametrize("annotation", [str, Annotated[str, Field(pattern="a")]])
def test_string_without_bound_is_refused(annotation: Any) -> None:
    with pytest.raises(StructuralSchemaError, match="maxLength is missing on this string"):
        field(annotation)


def test_list_without_bound_is_refused() -> None:
    with pytest.raises(StructuralSchemaError, match="maxItems is missing on this array"):
        field(tuple[int, ...])


def test_map_without_bound_is_refused() -> None:
    with pytest.raises(StructuralSchemaError, match="maxProperties is missing on this object"):
        field(dict[Short, int])


def test_unbounded_string_inside_a_list_is_refused() -> None:
    with pytest.raises(StructuralSchemaError, match="maxLength is missing on this string"):
        field(Annotated[tuple[str, ...], Field(max_length=2)])


def test_enum_needs_no_bound() -> None:
    assert field(Colour) == {"type": "string", "enum": ["red", "blue"], "description": "An enum of colours."}


def test_rule_of_a_model_is_in_the_schema() -> None:
    assert structural_schema(Guarded)["x-kubernetes-validations"] == [
        {"rule": "self.low <= self.high", "message": "low must be at most high"}
    ]


def test_status_accepts_values_of_newer_releases() -> None:
    assert structural_status_schema(field(Colour)) == {
        "type": "string",
        "maxLength": 64,
        "description": "An enum of colours.",
    }


def test_status_has_no_defaults_on_any_level() -> None:
    schema = structural_status_schema(field(Outer, Outer()))
    assert "default" not in schema
    assert "default" not in schema["properties"]["inner"]
    assert "default" not in schema["properties"]["inner"]["properties"]["size"]
