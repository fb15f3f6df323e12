"""Reading the shape and the quantization of a model from its config.json, and refusing wrong values."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.catalog.models.config_json import parse_config, read_config
from gaudi_runtime.catalog.models.known import known_models
from gaudi_runtime.catalog.models.quantization import Quantization
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import ModelUnreadable, UnsupportedModel

LLAMA: dict[str, Any] = known_models()["meta-llama/llama-3.1-8b"]["config"]


def test_json_text_and_mapping_result_in_the_same_shape() -> None:
    assert parse_config(json.dumps(LLAMA)) == read_config(LLAMA)


def test_null_field_is_read_as_missing() -> None:
    assert read_config({**LLAMA, "head_dim": None}) == read_config(LLAMA)


def test_key_value_heads_default_to_the_attention_heads() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert read_config(config).layers[0].attention.kv_heads == 32  # type: ignore[union-attr]


def test_dtype_field_is_read_if_torch_dtype_is_missing() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "torch_dtype"} | {"dtype": "float32"}
    assert read_config(config).dtype_bytes == 4


def test_disabled_sliding_window_is_none() -> None:
    qwen = known_models()["qwen/qwen2.5-7b"]["config"]
    shape = read_config({**qwen, "sliding_window": 131_072, "use_sliding_window": False})
    assert shape.layers[0].attention.sliding_window is None  # type: ignore[union-attr]


NO_COUNT = "but must be a whole number from 1 to"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hidden_size": 0}, f"config.json: hidden_size is 0, {NO_COUNT} 16777216"),
        ({"hidden_size": -4096}, f"config.json: hidden_size is -4096, {NO_COUNT} 16777216"),
        ({"hidden_size": 4096.5}, f"config.json: hidden_size is 4096.5, {NO_COUNT} 16777216"),
        ({"hidden_size": True}, f"config.json: hidden_size is True, {NO_COUNT} 16777216"),
        ({"hidden_size": float("nan")}, f"config.json: hidden_size is nan, {NO_COUNT} 16777216"),
        ({"num_hidden_layers": 10**9}, f"config.json: num_hidden_layers is 1000000000, {NO_COUNT} 1024"),
        ({"vocab_size": None}, "config.json has no vocab_size, so the memory of the model cannot be calculated"),
        (
            {"num_key_value_heads": 7},
            "config.json: num_attention_heads is 32, but must be a multiple of num_key_value_heads (7)",
        ),
        ({"tie_word_embeddings": "yes"}, "config.json: tie_word_embeddings is 'yes', but must be true or false"),
        ({"model_type": 5}, "config.json: model_type is 5, but must be a string"),
        ({"quantization_config": "fp8"}, "config.json: quantization_config must be an object"),
    ],
)
def test_wrong_value_is_refused_with_a_message(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelUnreadable) as refusal:
        read_config({**LLAMA, **change})
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "must contain a JSON object"),
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        (" " * 5_000_000, "is larger than"),
    ],
)
def test_text_that_is_no_config_is_refused(text: str, words: str) -> None:
    with pytest.raises(ModelUnreadable, match=words):
        parse_config(text)


def test_unknown_family_is_refused_with_the_known_families() -> None:
    with pytest.raises(
        UnsupportedModel, match="model_type 'bert', but memory can only be calculated for deepseek_v2, deepseek_v3"
    ):
        read_config({"model_type": "bert"})


def test_unknown_vision_tower_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="vision tower 'pixtral'"):
        read_config({**LLAMA, "vision_config": {"model_type": "pixtral"}})


QWEN_VL: dict[str, Any] = known_models()["qwen/qwen2.5-vl-7b-instruct"]["config"]


def test_vision_model_has_the_decoder_layers_of_its_text_model() -> None:
    shape, text = read_config(QWEN_VL), read_config(known_models()["qwen/qwen2.5-7b-instruct"]["config"])
    assert shape.layers == text.layers
    assert shape.extra_parameters == 676_550_144


def test_config_with_text_config_results_in_the_same_shape() -> None:
    """transformers 5 writes the decoder's fields into text_config, and a model type into vision_config, too."""
    outside = ("model_type", "vision_config", "torch_dtype")
    text = {key: value for key, value in QWEN_VL.items() if key not in outside} | {"model_type": "qwen2_5_vl_text"}
    tower = {**QWEN_VL["vision_config"], "model_type": "qwen2_5_vl"}
    saved = {"model_type": "qwen2_5_vl", "text_config": text, "vision_config": tower, "dtype": "bfloat16"}
    found, expected = read_config(saved), read_config(QWEN_VL)
    assert (found.layers, found.extra_parameters) == (expected.layers, expected.extra_parameters)


def test_missing_vision_dimensions_have_the_defaults_of_their_class() -> None:
    assert read_config({**QWEN_VL, "vision_config": {"hidden_size": 1280}}) == read_config(QWEN_VL)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128},
            Quantization(QuantizationMethod.GPTQ, 4, group_size=128, zero_points=True, group_index=True),
        ),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True},
            Quantization(QuantizationMethod.AWQ, 4, group_size=64, zero_points=True),
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            Quantization(QuantizationMethod.FP8, 8, block_edge=128),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
                "ignore": ["lm_head"],
            },
            Quantization(QuantizationMethod.COMPRESSED_TENSORS, 8),
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Quantization(QuantizationMethod.MODELOPT, 8)),
    ],
    ids=lambda value: value["quant_method"] if isinstance(value, dict) else "",
)
def test_quantization_config_of_each_method_is_read(config: dict[str, Any], expected: Quantization) -> None:
    assert read_config({**LLAMA, "quantization_config": config}).quantization == expected


def test_unknown_quantization_is_refused_with_the_known_methods() -> None:
    with pytest.raises(
        UnsupportedModel, match="quant_method 'bitsandbytes', but memory can only be calculated for gptq, awq"
    ):
        read_config({**LLAMA, "quantization_config": {"quant_method": "bitsandbytes"}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=60)
@given(st.sampled_from(sorted(known_models())), st.integers(0, 30), JSON)
def test_any_field_value_is_read_or_refused_with_a_message(repository: str, position: int, value: Any) -> None:
    config = dict(known_models()[repository]["config"])
    key = sorted(config)[position % len(config)]
    assert is_read_or_refused({**config, key: value})


def is_read_or_refused(config: dict[str, Any]) -> bool:
    try:
        return len(read_config(config).layers) <= 1024
    except (ModelUnreadable, UnsupportedModel) as refusal:
        return str(refusal).startswith("config.json")
