"""Enum values: lower case in a RuntimeConfig, capitalized in a resource."""

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from gaudi_operator.api.base import ApiModel
from gaudi_operator.api.schema_keywords import replace_default_keyword
from gaudi_operator.api.spelling import ContractEnumSpelling, cel_is_one_of_spellings
from gaudi_operator.api.structural_schema import structural_schema
from gaudi_operator.core.inference import SpecUnreadable, read_inference
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.core.rollout.revision import revision_inputs, serialize_revision_inputs
from gaudi_runtime.contract.bucketing import Strategy
from tests.unit.operator.api.schema_nodes import SPEC
from tests.unit.operator.core.resources import inference, resource

WORDS = [
    (path, value) for path in ("engine.executionMode", "bucketing.strategy") for value in SPEC[f"spec.{path}"]["enum"]
]
WITH: dict[str, Any] = {
    "File": {"file": "(1, 16, 0)\n(1, 1, 8)"},
    "Optimal": {"optimal": {"traffic": "prompt 1 100 0 5\ndecode 1 1 8 1"}},
}
"""Further required fields of a resource with this strategy."""


class Spoken(ApiModel):
    """A model with two enum fields."""

    word: Annotated[Strategy, ContractEnumSpelling()] = Field(
        Strategy.LINEAR, description="A word.", json_schema_extra=replace_default_keyword
    )
    other: Annotated[Strategy, ContractEnumSpelling()] | None = Field(None, description="Another word.")


def contract_spelling(value: str) -> str:
    return value[0].lower() + value[1:]


@pytest.mark.parametrize("word", ["PaddingAware", Strategy.PADDING_AWARE])
def test_value_is_parsed_as_its_enum_member(word: str) -> None:
    assert Spoken.model_validate({"word": word}).word is Strategy.PADDING_AWARE


@pytest.mark.parametrize("word", ["paddingAware", "PADDINGAWARE", "paddingaware", "", 3, None, ["Linear"]])
def test_different_spelling_is_refused(word: object) -> None:
    with pytest.raises(ValidationError):
        Spoken.model_validate({"word": word})


def test_refusal_names_the_allowed_values() -> None:
    with pytest.raises(ValidationError, match="Input should be 'Exponential', 'Linear', 'PaddingAware', 'File' or 'Op"):
        Spoken.model_validate({"other": "Unified"})


def test_json_value_is_capitalized() -> None:
    assert Spoken.model_validate({"word": "File"}).model_dump(mode="json") == {"word": "File", "other": None}


def test_schema_has_only_capitalized_values() -> None:
    field = structural_schema(Spoken)["properties"]["other"]
    assert field["enum"] == ["Exponential", "Linear", "PaddingAware", "File", "Optimal"]
    assert field["description"] == "Another word."


def test_one_of_rule_lists_the_allowed_values() -> None:
    expected = "(self.?bucketing.?strategy.orValue('') in ['Linear', 'File'])"
    assert cel_is_one_of_spellings("bucketing.strategy", Strategy.LINEAR, Strategy.FILE) == expected


@pytest.mark.parametrize(("path", "value"), WORDS)
def test_runtime_config_spells_enum_values_in_camel_case(path: str, value: str) -> None:
    section, field = path.split(".")
    asked = inference(**{section: {field: value, **(WITH.get(value, {}) if field == "strategy" else {})}})
    config = runtime_config(asked).model_dump(mode="json", by_alias=True)
    assert config[section][field] == contract_spelling(value)
    assert serialize_revision_inputs(revision_inputs(asked))[section][field] == value


@pytest.mark.parametrize(
    ("path", "value"), [*WORDS, ("rollout.type", "InPlace"), ("readiness.onShortfall", "ServeAndWarn")]
)
def test_lower_case_value_makes_a_spec_unreadable(path: str, value: str) -> None:
    section, field = path.split(".")
    with pytest.raises(SpecUnreadable, match=rf"^spec\.{section}\.{field} cannot be read .* '{value}'"):
        read_inference(resource(**{section: {field: contract_spelling(value)}}))
