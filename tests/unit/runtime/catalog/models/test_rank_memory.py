"""The bytes of weights, activations and KV cache on one rank, for each kind of parallelism and quantization."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaudi_runtime.catalog.models.known import known_models, known_shape
from gaudi_runtime.catalog.models.rank_memory import (
    QUANTIZED_BITS,
    RankSpread,
    rank_workspace_bytes,
    stage_layers,
    stage_memory,
)
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import PlanImpossible

MIB, GIB = 2**20, 2**30


def shape_of(repository: str) -> ModelShape:
    shape = known_shape(repository)
    assert shape is not None
    return shape


LLAMA = shape_of("meta-llama/Llama-3.1-8B")


def spread(
    tensor: int = 1, pipeline: int = 1, method: QuantizationMethod | None = None, experts: int | None = None
) -> RankSpread:
    return RankSpread(tensor, pipeline, 2, 2, method, experts)


def weights(shape: ModelShape, how: RankSpread) -> int:
    return max(stage.weight_bytes for stage in stage_memory(shape, how, 128))


def block(shape: ModelShape, tensor: int) -> int:
    return stage_memory(shape, spread(tensor), 128)[0].block_bytes


def test_seed_000_llama_3_1_8b_weighs_14_97_gib() -> None:
    assert weights(LLAMA, spread()) / GIB == pytest.approx(14.97, rel=0.001)


def test_seed_000_profile_run_of_4096_tokens_takes_504_mib() -> None:
    assert rank_workspace_bytes(LLAMA, 4096, 4, ranks=1, dtype_bytes=2) / MIB == pytest.approx(504, rel=0.02)


def test_seed_000_block_of_llama_3_1_8b_takes_16_mib() -> None:
    assert block(LLAMA, 1) == 16 * MIB


def test_multi_head_attention_caches_every_head() -> None:
    assert block(shape_of("meta-llama/Llama-2-7b-hf"), 1) == 2 * 128 * 32 * 128 * 2 * 32


def test_grouped_heads_are_divided_until_every_card_has_one() -> None:
    assert [block(LLAMA, tensor) // MIB for tensor in (1, 2, 8, 16, 32)] == [16, 8, 2, 2, 2]


def test_one_head_of_multi_query_attention_is_on_every_card() -> None:
    gemma = shape_of("google/gemma-3-1b-it")
    assert block(gemma, 1) == block(gemma, 4) == 2 * 128 * 1 * 256 * 2 * 26


def test_latent_vector_is_replicated_on_every_card() -> None:
    deepseek = shape_of("deepseek-ai/DeepSeek-V3")
    assert block(deepseek, 1) == block(deepseek, 8) == 128 * 576 * 2 * 61


def test_fp8_block_takes_half_the_bytes_of_bfloat16() -> None:
    assert stage_memory(LLAMA, RankSpread(1, 1, 2, 1), 128)[0].block_bytes == 8 * MIB


def test_two_cards_divide_all_weights() -> None:
    assert weights(LLAMA, spread(2)) == pytest.approx(weights(LLAMA, spread()) / 2, abs=1)


def test_float32_weights_take_double_the_bytes() -> None:
    assert weights(LLAMA, RankSpread(1, 1, 4, 4)) == 2 * weights(LLAMA, spread())


def test_inc_leaves_embeddings_and_head_in_16_bits() -> None:
    outside = 2 * 2 * 128_256 * 4096
    assert weights(LLAMA, spread(method=QuantizationMethod.INC)) == (weights(LLAMA, spread()) - outside) // 2 + outside


def test_gptq_of_llama_3_1_8b_takes_5_74_gb_as_published() -> None:
    assert weights(LLAMA, spread(method=QuantizationMethod.GPTQ)) / 1e9 == pytest.approx(5.74, rel=0.03)


def test_every_quantization_method_is_tested() -> None:
    assert set(QUANTIZED_BITS) == set(QuantizationMethod)


@pytest.mark.parametrize("method", QuantizationMethod)
def test_quantized_model_is_smaller_than_in_16_bits(method: QuantizationMethod) -> None:
    assert weights(LLAMA, spread(method=method)) < 0.6 * weights(LLAMA, spread())


def test_quantized_checkpoint_takes_the_bytes_of_its_files() -> None:
    deepseek = shape_of("deepseek-ai/DeepSeek-R1")
    assert deepseek.file_bytes is not None
    assert weights(deepseek, spread()) == pytest.approx(deepseek.file_bytes, abs=1)
    assert weights(deepseek, spread(method=QuantizationMethod.FP8)) == weights(deepseek, spread())


def test_mxfp4_checkpoint_is_loaded_with_16_bits() -> None:
    stored, converted = shape_of("openai/gpt-oss-20b"), shape_of("lmsys/gpt-oss-20b-bf16")
    assert weights(stored, spread()) == pytest.approx(weights(converted, spread()), rel=0.001)


def test_checkpoint_without_weight_files_is_estimated() -> None:
    assert weights(replace(LLAMA, file_bytes=None), spread()) == pytest.approx(weights(LLAMA, spread()), rel=0.001)
    deepseek = shape_of("deepseek-ai/DeepSeek-R1")
    assert weights(replace(deepseek, file_bytes=None), spread()) == pytest.approx(weights(deepseek, spread()), rel=0.03)


def test_recurrent_states_are_divided_over_cards() -> None:
    qwen = shape_of("Qwen/Qwen3.5-35B-A3B")
    one, two = (stage_memory(qwen, spread(tensor), 128)[0] for tensor in (1, 2))
    assert two.state_bytes == one.state_bytes // 2 > 0


def test_expert_parallel_cards_do_not_divide_experts() -> None:
    mixtral = shape_of("mistralai/Mixtral-8x7B-v0.1")
    assert weights(mixtral, spread(8, experts=8)) == weights(mixtral, spread(8))
    assert weights(mixtral, spread(8, experts=3)) > weights(mixtral, spread(8))


def test_remaining_layers_are_added_before_the_last_stage() -> None:
    layers = LLAMA.layers[:14]
    assert [len(part) for part in stage_layers(layers, 4)] == [3, 4, 4, 3]


def test_tied_embeddings_are_on_the_first_and_on_last_stage() -> None:
    tied = shape_of("meta-llama/Llama-3.2-1B")
    first, last = stage_memory(tied, spread(pipeline=2), 128)
    assert last.weight_bytes == first.weight_bytes
    assert first.weight_bytes + last.weight_bytes - weights(tied, spread()) == 128_256 * 2048 * 2


def test_heads_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(
        PlanImpossible, match=r"parallelism.tensor is 3, but must be a divisor of the model's .* attention heads, 32"
    ):
        stage_memory(LLAMA, spread(3), 128)


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(
        PlanImpossible, match=r"parallelism.pipeline is 33, but must be at most the model's number of layers, 32"
    ):
        stage_memory(LLAMA, spread(pipeline=33), 128)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(known_models())),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 4),
    st.sampled_from([None, *QuantizationMethod]),
)
def test_cards_together_have_at_least_the_whole_model(
    repository: str, tensor: int, pipeline: int, method: QuantizationMethod | None
) -> None:
    """All cards together hold the model at least once, and no card holds more than the whole model."""
    shape, how = shape_of(repository), spread(tensor, pipeline, method)
    assume(not any(layer.heads % tensor for layer in shape.layers))
    parts, whole = stage_memory(shape, how, 128), stage_memory(shape, spread(method=method), 128)[0]
    assert tensor * sum(stage.weight_bytes for stage in parts) >= whole.weight_bytes
    assert all(0 < stage.weight_bytes <= whole.weight_bytes for stage in parts)
    assert tensor * sum(stage.block_bytes for stage in parts) >= whole.block_bytes
