"""The arithmetic and the bytes of a model per token, and the rates of a card, as the roofline uses them."""

from dataclasses import replace

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.catalog.cards import Card, card_named
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.rank_memory import Spread
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.optimal.cost import make_roofline

BF16 = Spread(tensor_ranks=1, pipeline_stages=1, dtype_bytes=2, kv_dtype_bytes=2)
GAUDI2 = card_named("gaudi2")


def shape_of(name: str) -> ModelShape:
    shape = known_shape(name)
    assert shape
    return shape


def test_llama_8b_token_uses_all_weights_except_embeddings() -> None:
    """A token uses 7.5 of 8.03 billion parameters, because 128,256 * 4096 embeddings are only looked up."""
    found = make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, GAUDI2, 128)
    assert found.matmul_weights == pytest.approx(8.03e9 - 128_256 * 4096, rel=0.001)
    assert found.weight_bytes == pytest.approx(16.06e9, rel=0.001)


def test_matmul_weights_include_matrices_but_not_norms() -> None:
    """The matrices are the output head and, in each of 32 layers, four of the attention and three of the MLP."""
    found = make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, GAUDI2, 128)
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336
    assert found.matmul_weights == 128_256 * 4096 + 32 * layer


def test_llama_8b_caches_a_block_of_16_mib() -> None:
    """A block of 128 tokens has the same size as in log 000."""
    found = make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, GAUDI2, 128)
    assert found.kv_bytes_per_token * 128 == 16 * 2**20


def test_token_uses_only_the_active_experts() -> None:
    """Mixtral 8x7B has 46.7 billion parameters, 12.9 billion of them active for a token."""
    found = make_roofline(shape_of("mistralai/Mixtral-8x7B-v0.1"), BF16, GAUDI2, 128)
    assert found.matmul_weights == pytest.approx(12.9e9 - 32_000 * 4096, rel=0.01)
    assert found.weight_bytes == pytest.approx(2 * 46.7e9, rel=0.01)


def test_fp8_cache_halves_the_bytes_that_decode_reads() -> None:
    shape = shape_of("meta-llama/Llama-3.1-8B")
    fp8 = make_roofline(shape, Spread(1, 1, 2, 1), GAUDI2, 128)
    assert 2 * fp8.kv_bytes_per_token == make_roofline(shape, BF16, GAUDI2, 128).kv_bytes_per_token


def test_costs_do_not_depend_on_the_number_of_ranks() -> None:
    shape, shapes = shape_of("meta-llama/Llama-3.1-8B"), [Bucket(1, 1024, 3), Bucket(8, 1, 100)]
    one, four = (make_roofline(shape, Spread(ranks, 1, 2, 2), GAUDI2, 128) for ranks in (1, 4))
    assert [one(phase, each) for phase in BucketPhase for each in shapes] == [
        four(phase, each) for phase in BucketPhase for each in shapes
    ]


def test_layers_of_all_pipeline_ranks_are_read() -> None:
    """Two pipeline stages with tied embeddings store the embeddings twice, but the model counts them once."""
    shape = shape_of("meta-llama/Llama-3.2-1B")
    found = make_roofline(shape, Spread(1, 2, 2, 2), GAUDI2, 128)
    assert found == make_roofline(shape, BF16, GAUDI2, 128)
    assert found.weight_bytes == pytest.approx(2 * 1.236e9, rel=0.001)


def test_attention_width_is_the_sum_of_heads_over_layers() -> None:
    assert make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, GAUDI2, 128).attention_width == 32 * 32 * 128


def test_latent_attention_width_is_the_mean_of_scores_and_values() -> None:
    """DeepSeek V2 Lite has 27 layers of 16 heads. Each head has 128 + 64 numbers for scores and 128 for values."""
    found = make_roofline(shape_of("deepseek-ai/DeepSeek-V2-Lite"), BF16, GAUDI2, 128)
    assert found.attention_width == 27 * 16 * (128 + 64 + 128) / 2


def test_roofline_has_the_rates_of_the_card() -> None:
    found = make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, GAUDI2, 64)
    assert (found.operations_per_second, found.bytes_per_second, found.block_size) == (432e12, 2.45e12, 64)


@pytest.mark.parametrize("card", [replace(GAUDI2, bandwidth=None), replace(GAUDI2, bf16_matmul=None)])
def test_card_without_bandwidth_or_matmul_rate_is_refused(card: Card) -> None:
    with pytest.raises(ConfigError, match=r"unknown\. A roofline needs card gaudi2 or gaudi3$"):
        make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, card, 128)


def test_card_without_a_described_speed_is_refused() -> None:
    with pytest.raises(ConfigError, match="the speed of card none is unknown"):
        make_roofline(shape_of("meta-llama/Llama-3.1-8B"), BF16, card_named("none"), 128)
