"""The table of public models: sizes of weight files compared with the shapes, and the KV cache of each family."""

import pytest

from gaudi_runtime.catalog.models.known import known_models, known_shape
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.models.validated import validated_models

PUBLISHED = {
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-405B": 405_853_388_800,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.3-70B-Instruct": 70_553_706_496,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "ibm-granite/granite-3.1-8b-instruct": 8_170_848_256,
    "google/gemma-2-9b": 9_241_705_984,
    "google/gemma-3-27b-it": 27_432_406_640,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_123_696,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": 31_070_754_032,
    "lmsys/gpt-oss-20b-bf16": 20_914_757_184,
    "lmsys/gpt-oss-120b-bf16": 116_829_156_672,
}
"""The published parameters of models with 16 bits a weight. Models for images include their vision towers."""

BYTES_PER_TOKEN = {
    "meta-llama/Llama-3.1-8B": 32 * 2 * 8 * 128,
    "meta-llama/Llama-3.2-3B": 28 * 2 * 8 * 128,
    "meta-llama/Llama-4-Scout-17B-16E": 48 * 2 * 8 * 128,
    "Qwen/Qwen3-30B-A3B": 48 * 2 * 4 * 128,
    "deepseek-ai/DeepSeek-R1": 61 * (512 + 64),
    "mistralai/Mistral-Large-3-675B-Instruct-2512": 61 * (512 + 64),
    "deepseek-ai/DeepSeek-OCR": 12 * 2 * 10 * 128,
    "ibm-granite/granite-20b-code-instruct-8k": 52 * 2 * 1 * 128,
    "ibm-granite/granite-4.0-h-small": 4 * 2 * 8 * 128,
    "google/gemma-3-27b-it": 62 * 2 * 16 * 128,
    "google/gemma-4-31B-it": 50 * 2 * 16 * 256 + 10 * 2 * 4 * 512,
    "google/gemma-4-26B-A4B-it": 25 * 2 * 8 * 256 + 5 * 2 * 2 * 512,
    "google/gemma-4-E4B-it": 20 * 2 * 2 * 256 + 4 * 2 * 2 * 512,
    "openai/gpt-oss-20b": 24 * 2 * 8 * 64,
    "Qwen/Qwen3.5-35B-A3B": 10 * 2 * 2 * 256,
    "MiniMaxAI/MiniMax-M2": 62 * 2 * 8 * 128,
    "MiniMaxAI/MiniMax-M3": 60 * 2 * 4 * 128,
    "tencent/Hunyuan-A13B-Instruct": 32 * 2 * 8 * 128,
}
"""The numbers in the KV cache per token: layers * (keys and values) * KV heads * head dimension."""


def shape_of(repository: str) -> ModelShape:
    shape = known_shape(repository)
    assert shape is not None
    return shape


def test_every_validated_model_has_a_shape() -> None:
    assert [row.model for row in validated_models() if known_shape(row.model) is None] == []


@pytest.mark.parametrize(("repository", "published"), PUBLISHED.items())
def test_bytes_are_two_for_each_published_parameter(repository: str, published: int) -> None:
    assert known_models()[repository.lower()]["bytes"] == 2 * published


@pytest.mark.parametrize("repository", sorted(known_models()))
def test_weight_files_match_the_shape_within_3_percent(repository: str) -> None:
    """Only config.json determines the shape. An image tower and embeddings for each layer are not part of it."""
    shape = shape_of(repository)
    expected = shape.parameters * (1 if shape.quantization else shape.dtype_bytes)
    size = known_models()[repository]["bytes"]
    if shape.takes_images:
        assert 0.49 * size < expected < size * 1.03
    elif repository.startswith("openai/"):
        assert 4.25 / 8 * expected < size < 0.7 * expected  # experts have 4 bits and scales
    else:
        assert expected == pytest.approx(size, rel=0.03)


def test_sizes_of_ten_models_were_read_in_their_index() -> None:
    sizes = {entry["bytes"] for entry in known_models().values() if entry.get("listed")}
    assert len(sizes) == 10


@pytest.mark.parametrize(("repository", "numbers"), BYTES_PER_TOKEN.items())
def test_cache_per_token_is_that_of_the_family(repository: str, numbers: int) -> None:
    assert sum(layer.kv_heads * layer.cache_width for layer in shape_of(repository).layers) == numbers


def test_gated_delta_nets_keep_a_state_of_32_heads() -> None:
    states = [layer.state_bytes for layer in shape_of("Qwen/Qwen3.5-35B-A3B").layers]
    state = 4 * 32 * 128 * 128 + 2 * 3 * (2 * 16 * 128 + 32 * 128)
    assert states == [state, state, state, 0] * 10


def test_mamba_layers_keep_a_state_of_128_heads() -> None:
    states = [layer.state_bytes for layer in shape_of("ibm-granite/granite-4.0-h-small").layers]
    assert states.count(0) == 4
    assert set(states) == {0, 2 * (128 * 64 * 128 + 3 * (8192 + 2 * 128))}


def test_table_lists_each_repository_once() -> None:
    entries = {id(entry["config"]): entry for entry in known_models().values()}.values()
    assert sum(len(entry["repositories"]) for entry in entries) == len(known_models())


def test_repository_is_found_in_any_case_with_its_canonical_name() -> None:
    assert shape_of("META-LLAMA/llama-3.1-8b").name == "meta-llama/Llama-3.1-8B"


def test_repository_is_found_without_its_owner() -> None:
    assert known_shape("llama-3.1-8b") == shape_of("meta-llama/Llama-3.1-8B")


def test_repository_of_another_owner_is_unknown() -> None:
    assert known_shape("other/Llama-3.1-8B") is None


def test_names_without_owners_are_distinct() -> None:
    assert len({repository.partition("/")[2] for repository in known_models()}) == len(known_models())


def test_repository_that_is_not_in_the_table_has_no_shape() -> None:
    assert known_shape("unknown/model") is None


def test_lengths_differ_between_repositories_with_one_shape() -> None:
    assert shape_of("meta-llama/Meta-Llama-3-8B").max_length == 8192
    assert shape_of("meta-llama/Llama-3.1-8B").max_length == 131_072


@pytest.mark.parametrize(
    ("repository", "period"),
    [("google/gemma-2-2b", 2), ("google/gemma-3-4b-it", 6), ("google/gemma-4-31B-it", 6), ("openai/gpt-oss-20b", 2)],
)
def test_last_layer_of_each_period_has_full_attention(repository: str, period: int) -> None:
    windowed = [layer.windowed for layer in shape_of(repository).layers[: 2 * period]]
    assert windowed == ([True] * (period - 1) + [False]) * 2


def test_deepseek_v3_has_three_dense_layers_before_its_experts() -> None:
    kinds = [layer.experts > 0 for layer in shape_of("deepseek-ai/DeepSeek-V3").layers]
    assert kinds == [False] * 3 + [True] * 58
