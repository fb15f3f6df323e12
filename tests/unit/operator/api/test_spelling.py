"""Our own words: UpperCamelCase in a resource, read by their former spelling too."""

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from gaudi_operator.api.base import ApiModel, meant_when_left_out
from gaudi_operator.api.schema import structural
from gaudi_operator.api.spelling import OwnWord, present_values, says
from gaudi_operator.api.v1alpha1.scaling import RolloutMode
from gaudi_operator.core.children.runtime_config import runtime_config
from gaudi_operator.core.resource import SpecUnreadable, read_inference
from gaudi_operator.core.rollout.inputs import revision_inputs, stored_form
from gaudi_runtime.contract.bucketing import Strategy
from tests.unit.operator.api.schema_nodes import SPEC
from tests.unit.operator.core.resources import inference, resource

WORDS = [
    (path, value)
    for path, node in SPEC.items()
    for value in present_values(node.get("enum", []))
    if len(present_values(node.get("enum", []))) < len(node.get("enum", []))
]
BESIDE: dict[str, Any] = {
    "File": {"file": "(1, 16, 0)\n(1, 1, 8)"},
    "Optimal": {"optimal": {"traffic": "prompt 1 100 0 5\ndecode 1 1 8 1"}},
}


class Said(ApiModel):
    """A word, and one of few."""

    word: Annotated[Strategy, OwnWord()] = Field(
        Strategy.LINEAR, description="A word.", json_schema_extra=meant_when_left_out
    )
    few: Annotated[Strategy, OwnWord(without=(Strategy.UNIFIED,))] | None = Field(None, description="Few.")


def said(path: str, value: str) -> dict[str, Any]:
    """Sections of a spec with this value at its path."""
    _, section, field = path.split(".")
    return {section: {field: value, **(BESIDE.get(value[0].upper() + value[1:], {}) if field == "strategy" else {})}}


def former(value: str) -> str:
    return value[0].lower() + value[1:]


@pytest.mark.parametrize("word", ["PaddingAware", "paddingAware", Strategy.PADDING_AWARE])
def test_word_is_read_in_either_spelling(word: str) -> None:
    assert Said.model_validate({"word": word}).word is Strategy.PADDING_AWARE


@pytest.mark.parametrize("word", ["PADDINGAWARE", "paddingaware", "padding_aware", "", 3, None, ["Linear"]])
def test_other_spelling_is_refused(word: object) -> None:
    with pytest.raises(ValidationError):
        Said.model_validate({"word": word})


def test_refusal_names_the_present_spellings() -> None:
    with pytest.raises(ValidationError, match="Input should be 'Exponential', 'Linear', 'PaddingAware', 'File' or 'Op"):
        Said.model_validate({"few": "Unified"})


def test_json_of_a_resource_has_the_present_spelling() -> None:
    assert Said.model_validate({"word": "file"}).model_dump(mode="json") == {"word": "File", "few": None}


def test_schema_has_both_spellings_and_says_which_one_goes() -> None:
    field = structural(Said)["properties"]["few"]
    assert field["enum"][::5] == ["Exponential", "exponential"]
    assert field["description"] == "Few. Values with a small first letter are deprecated and go with release 0.3."


def test_rule_takes_both_spellings_and_no_value() -> None:
    expected = "(self.?rollout.?mode.orValue('') in ['InPlace', 'inPlace', 'Auto', 'auto'])"
    assert says("rollout.mode", RolloutMode.IN_PLACE, RolloutMode.AUTO) == expected


def test_value_without_a_present_spelling_is_present_itself() -> None:
    assert present_values(["Auto", "auto", "none"]) == ["Auto", "none"]


@pytest.mark.parametrize(("path", "value"), WORDS)
def test_former_spelling_means_the_same(path: str, value: str) -> None:
    then, now = inference(**said(path, former(value))), inference(**said(path, value))
    assert then == now
    assert runtime_config(then) == runtime_config(now)
    assert stored_form(revision_inputs(then)) == stored_form(revision_inputs(now))


def test_value_that_is_unknown_makes_a_spec_unreadable() -> None:
    with pytest.raises(SpecUnreadable, match=r"^spec\.rollout\.mode cannot be read .* 'Auto', 'Surge' or 'In"):
        read_inference(resource(rollout={"mode": "Sideways"}))
