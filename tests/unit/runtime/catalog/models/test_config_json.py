"""Reading the shape of a model from its config.json and its weight files, and refusing wrong values."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.catalog.models.config_json import parse_config_json, read_checkpoint, read_config
from gaudi_runtime.catalog.models.known import known_models
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import ModelUnreadable, UnsupportedModel

LLAMA: dict[str, Any] = known_models()["meta-llama/llama-3.1-8b"]["config"]


def test_json_text_and_mapping_result_in_the_same_shape() -> None:
    assert parse_config_json(json.dumps(LLAMA)) == read_config(LLAMA)


def test_null_field_is_read_as_missing() -> None:
    assert read_config({**LLAMA, "head_dim": None}) == read_config(LLAMA)


def test_key_value_heads_default_to_the_attention_heads() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert read_config(config).layers[0].kv_heads == 32


def test_dtype_field_is_read_if_torch_dtype_is_missing() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "torch_dtype"} | {"dtype": "float32"}
    assert read_config(config).dtype_bytes == 4


def test_layers_with_a_disabled_sliding_window_are_not_windowed() -> None:
    qwen = known_models()["qwen/qwen2.5-7b"]["config"]
    shape = read_config({**qwen, "sliding_window": 131_072, "use_sliding_window": False})
    assert not any(layer.windowed for layer in shape.layers)


def test_longest_sequence_is_read_with_its_yarn_extension() -> None:
    config = {**LLAMA, "max_position_embeddings": 32_768}
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    assert read_config(LLAMA).max_length is None
    assert read_config(config).max_length == 32_768
    assert read_config({**config, "rope_scaling": scaling}).max_length == 131_072


def test_checkpoint_has_the_bytes_of_its_weight_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_checkpoint(tmp_path).file_bytes is None
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 16060522496}}')
    assert read_checkpoint(tmp_path / "config.json").file_bytes == 16_060_522_496
    for name in ("model-1-of-2.safetensors", "model-2-of-2.safetensors", "consolidated.safetensors"):
        (tmp_path / name).write_bytes(bytes(100))
    assert read_checkpoint(tmp_path).file_bytes == 200


def test_index_without_a_size_leaves_the_bytes_unknown(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    assert read_checkpoint(tmp_path).file_bytes is None


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
        parse_config_json(text)


def test_unknown_family_is_refused_with_the_known_families() -> None:
    with pytest.raises(
        UnsupportedModel, match="model_type 'bert', but memory can only be calculated for deepseek_v2, deepseek_v3"
    ):
        read_config({"model_type": "bert"})


def test_decoder_is_read_from_the_object_of_its_own() -> None:
    """transformers 5 writes the keys of the decoder into text_config."""
    flat = known_models()["qwen/qwen2.5-vl-7b-instruct"]["config"]
    outside = ("model_type", "vision_config", "torch_dtype")
    text = {key: value for key, value in flat.items() if key not in outside} | {"model_type": "qwen2_5_vl_text"}
    nested = read_config({"model_type": "qwen2_5_vl", "text_config": text, "vision_config": {}, "dtype": "bfloat16"})
    assert nested.layers == read_config(flat).layers
    assert nested.takes_images


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("gptq", QuantizationMethod.GPTQ),
        ("fbgemm_fp8", QuantizationMethod.FP8),
        ("compressed-tensors", QuantizationMethod.COMPRESSED_TENSORS),
        ("mxfp4", QuantizationMethod.MXFP4),
    ],
)
def test_method_of_a_quantized_checkpoint_is_read(method: str, expected: QuantizationMethod) -> None:
    assert read_config({**LLAMA, "quantization_config": {"quant_method": method}}).quantization is expected


def test_unknown_quantization_is_refused_with_the_known_methods() -> None:
    with pytest.raises(
        UnsupportedModel, match="quant_method 'bitsandbytes', but memory can only be calculated for inc, fp8"
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
