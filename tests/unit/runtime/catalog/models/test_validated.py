"""The table of validated models: its data is consistent, and models are found by their usual names."""

import pytest

from gaudi_runtime.catalog.cards import CARDS
from gaudi_runtime.catalog.models.validated import (
    ValidatedModel,
    last_release_for_validated_model,
    validated_models,
    validations_by_card,
)
from gaudi_runtime.knobs.setting_errors import setting_errors


def test_each_model_is_listed_once_per_card() -> None:
    keys = [(each.model, each.card) for each in validated_models()]
    assert len(keys) == len(set(keys)) >= 40


@pytest.mark.parametrize("row", validated_models(), ids=lambda row: f"{row.model}-{row.card}")
def test_row_has_only_known_cards_datatypes_sources_and_settings(row: ValidatedModel) -> None:
    assert row.card in CARDS
    assert set(row.tensor_sizes) <= {1, 2, 4, 8}
    assert row.tensor_sizes
    assert set(row.datatypes) <= {"bf16", "fp16", "fp8", "int4"}
    assert set(row.sources) <= {"plugin", "002", "003"}
    assert row.sources
    assert list(setting_errors(row.settings)) == []


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b", "mirror/LLAMA-3.1-8B"]
)
def test_model_is_found_by_any_of_its_names(name: str) -> None:
    assert set(validations_by_card(name)) == {"gaudi2", "gaudi3"}
    assert validations_by_card(name)["gaudi2"].model == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1", "", "acme/own-model"])
def test_unlisted_model_has_no_row(name: str) -> None:
    assert validations_by_card(name) == {}


def test_list_of_the_plugin_replaces_older_lists() -> None:
    """Earlier lists state four cards and Gaudi 2 for this model."""
    (row,) = validations_by_card("Qwen/Qwen2.5-VL-7B-Instruct").values()
    assert (row.card, row.tensor_sizes, row.is_in_plugin_list) == ("gaudi3", (1,), True)


@pytest.mark.parametrize(
    "model", ["openai/gpt-oss-20b", "Qwen/Qwen3-VL-32B-Instruct", "google/gemma-4-31B-it", "MiniMaxAI/MiniMax-M3"]
)
def test_model_in_the_list_of_the_plugin_is_validated(model: str) -> None:
    assert validations_by_card(model)["gaudi3"].is_in_plugin_list


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.2-11B-Vision", "meta-llama/Llama-3.2-90B-Vision-Instruct"])
def test_model_that_no_supported_release_can_start_has_no_rows(model: str) -> None:
    assert validations_by_card(model) == {}
    assert last_release_for_validated_model(model) == "0.10.2"
    assert last_release_for_validated_model("meta-llama/Llama-3.2-1B") is None
