"""The bytes of weights, activations and KV cache on one rank, for each kind of parallelism and quantization."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaudi_runtime.catalog.models.known import known_models, known_shape
from gaudi_runtime.catalog.models.quantization import ASKED_FOR
from gaudi_runtime.catalog.models.rank_memory import Spread, stage_layers, stage_memory, workspace_bytes
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import PlanImpossible
from tests.support.parameters import count_parameters

MIB, GIB = 2**20, 2**30


def shape_of(repository: str) -> ModelShape:
    shape = known_shape(repository)
    assert shape is not None
    return shape


LLAMA = shape_of("meta-llama/Llama-3.1-8B")


def spread(
    tensor: int = 1, pipeline: int = 1, method: QuantizationMethod | None = None, experts: int | None = None
) -> Spread:
    return Spread(tensor, pipeline, 2, 2, ASKED_FOR[method] if method else None, experts)


def weights(shape: ModelShape, how: Spread) -> int:
    return max(stage.weight_bytes for stage in stage_memory(shape, how, 128))


def block(shape: ModelShape, tensor: int) -> int:
    return stage_memory(shape, spread(tensor), 128)[0].block_bytes


def test_seed_000_llama_3_1_8b_weighs_14_97_gib() -> None:
    assert weights(LLAMA, spread()) / GIB == pytest.approx(14.97, rel=0.001)


def test_seed_000_profile_run_of_4096_tokens_takes_504_mib() -> None:
    assert workspace_bytes(LLAMA, 4096, 4, ranks=1, dtype_bytes=2) / MIB == pytest.approx(504, rel=0.02)


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
    assert stage_memory(LLAMA, Spread(1, 1, 2, 1), 128)[0].block_bytes == 8 * MIB


def test_two_cards_divide_all_weights_except_norms() -> None:
    norms = 65 * 4096 * 2
    assert weights(LLAMA, spread(2)) == (count_parameters(LLAMA) * 2 - norms) // 2 + norms


def test_inc_leaves_embeddings_head_and_norms_in_16_bits() -> None:
    """Layer matrices take one byte per parameter, other parameters take two, and each output has a 2-byte scale."""
    outside = 2 * 128_256 * 4096 + 65 * 4096
    scales = 32 * 2 * (4096 + 2 * 1024 + 4096 + 2 * 14_336 + 4096)
    assert (
        weights(LLAMA, spread(method=QuantizationMethod.INC))
        == (count_parameters(LLAMA) - outside) + outside * 2 + scales
    )


def test_gptq_of_llama_3_1_8b_takes_5_74_gb_as_published() -> None:
    assert weights(LLAMA, spread(method=QuantizationMethod.GPTQ)) / 1e9 == pytest.approx(5.74, rel=0.005)


def test_every_quantization_method_is_tested() -> None:
    assert set(ASKED_FOR) == set(QuantizationMethod)


@pytest.mark.parametrize("method", QuantizationMethod)
def test_quantized_model_is_smaller_than_in_16_bits(method: QuantizationMethod) -> None:
    assert weights(LLAMA, spread(method=method)) < 0.6 * weights(LLAMA, spread())


def test_awq_has_no_group_index() -> None:
    index = 32 * 4 * (6 * 4096 + 14_336)
    gptq, awq = (weights(LLAMA, spread(method=each)) for each in (QuantizationMethod.GPTQ, QuantizationMethod.AWQ))
    assert gptq - awq == index


def test_deepseek_r1_takes_the_bytes_of_its_fp8_checkpoint() -> None:
    """Matrices take one byte per parameter and a 4-byte scale per 128 x 128 block. The rest has 16 bits."""
    deepseek = shape_of("deepseek-ai/DeepSeek-R1")
    one_card = weights(deepseek, Spread(1, 1, 2, 2, deepseek.quantization))
    assert count_parameters(deepseek) < one_card < count_parameters(deepseek) * 1.01


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
    assert last.weight_bytes - first.weight_bytes == 2048 * 2
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
    st.sampled_from([None, *ASKED_FOR]),
)
def test_cards_together_have_at_least_the_whole_model(
    repository: str, tensor: int, pipeline: int, method: QuantizationMethod | None
) -> None:
    """All cards together hold the model at least once, and no card holds more than the whole model."""
    shape, how = shape_of(repository), spread(tensor, pipeline, method)
    assume(not any(layer.attention.heads % tensor for layer in shape.layers))
    parts, whole = stage_memory(shape, how, 128), stage_memory(shape, spread(method=method), 128)[0]
    assert tensor * sum(stage.weight_bytes for stage in parts) >= whole.weight_bytes
    assert all(0 < stage.weight_bytes <= whole.weight_bytes for stage in parts)
    assert tensor * sum(stage.block_bytes for stage in parts) >= whole.block_bytes
