"""The table of public models compared with the published parameter counts."""

import pytest

from gaudi_runtime.catalog.models.known import known_models, known_shape
from gaudi_runtime.catalog.models.shape import Attention, Experts, LatentAttention, ModelShape
from tests.support.parameters import count_parameters

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
    "deepseek-ai/DeepSeek-R1": 671_026_419_200,
    "ibm-granite/granite-3.1-8b-instruct": 8_170_848_256,
    "google/gemma-2-9b": 9_241_705_984,
    "google/gemma-3-27b-it": 27_432_406_640,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-32B-Instruct": 33_452_718_336,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_123_696,
    "Qwen/Qwen3-VL-32B-Instruct": 33_357_390_064,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": 31_070_754_032,
}
"""Models for images include their vision towers. DeepSeek V3 and R1 exclude the layer for multi-token prediction."""


def shape_of(repository: str) -> ModelShape:
    shape = known_shape(repository)
    assert shape is not None
    return shape


@pytest.mark.parametrize(("repository", "published"), PUBLISHED.items())
def test_parameters_of_the_shape_equal_the_published_count(repository: str, published: int) -> None:
    assert count_parameters(shape_of(repository)) == published


@pytest.mark.parametrize("repository", sorted(known_models()))
def test_parameters_of_the_shape_equal_those_in_the_table(repository: str) -> None:
    assert count_parameters(shape_of(repository)) == known_models()[repository]["parameters"]


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


def test_gemma_3_has_full_attention_in_every_sixth_layer() -> None:
    windows = [layer.attention.sliding_window for layer in shape_of("google/gemma-3-4b-it").layers[:12]]  # type: ignore[union-attr]
    assert windows == ([1024] * 5 + [None]) * 2


def test_gemma_2_has_full_attention_in_every_other_layer() -> None:
    windows = [layer.attention.sliding_window for layer in shape_of("google/gemma-2-2b").layers[:4]]  # type: ignore[union-attr]
    assert windows == [4096, None, 4096, None]


def test_deepseek_v3_has_three_dense_layers_before_its_experts() -> None:
    kinds = [isinstance(layer.feed_forward, Experts) for layer in shape_of("deepseek-ai/DeepSeek-V3").layers]
    assert kinds == [False] * 3 + [True] * 58


def test_deepseek_has_latent_attention() -> None:
    attention = shape_of("deepseek-ai/DeepSeek-V2").layers[0].attention
    assert isinstance(attention, LatentAttention)
    assert attention.kv_rank + attention.rope_dim == 576


def test_llama_3_2_3b_has_head_dimension_128() -> None:
    attention = shape_of("meta-llama/Llama-3.2-3B").layers[0].attention
    assert isinstance(attention, Attention)
    assert (attention.heads, attention.kv_heads, attention.head_dim) == (24, 8, 128)
