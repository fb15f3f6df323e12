"""The KV cache of a card is limited to the blocks that sequences can fill."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.engines.vllm.workers.kv_cache import useful_cache_bytes


@dataclass(frozen=True)
class FullAttentionSpec:
    """A fake with the name and the fields of vLLM's FullAttentionSpec."""

    block_size: int = 128
    page_size_bytes: int = 1000


@dataclass(frozen=True)
class SlidingWindowSpec:
    """A fake with the name and the fields of vLLM's SlidingWindowSpec."""

    block_size: int = 128
    page_size_bytes: int = 1000


def vllm_config(*, caching: bool = False, watermark: float = 0.0, length: int = 1025, seqs: int = 4) -> Any:
    return SimpleNamespace(
        cache_config=SimpleNamespace(enable_prefix_caching=caching),
        scheduler_config=SimpleNamespace(max_num_seqs=seqs, watermark=watermark),
        model_config=SimpleNamespace(max_model_len=length),
    )


LAYERS = {"model.layers.0.attn": FullAttentionSpec(), "model.layers.1.attn": FullAttentionSpec()}


def test_every_sequence_has_blocks_for_its_longest_length() -> None:
    # A sequence of 1025 tokens needs 9 blocks of 128 tokens. vLLM reserves one more block.
    assert useful_cache_bytes(vllm_config(), LAYERS) == (4 * 9 + 1) * 1000 * 2


def test_sequence_of_whole_blocks_needs_no_extra_block() -> None:
    assert useful_cache_bytes(vllm_config(length=1024), LAYERS) == (4 * 8 + 1) * 1000 * 2


@pytest.mark.parametrize("config", [vllm_config(caching=True), vllm_config(watermark=0.01)])
def test_prefix_caching_or_a_watermark_disables_the_cache_limit(config: Any) -> None:
    assert useful_cache_bytes(config, LAYERS) is None


@pytest.mark.parametrize(
    "other", [SlidingWindowSpec(), FullAttentionSpec(block_size=64), FullAttentionSpec(page_size_bytes=500)]
)
def test_cache_of_different_layers_is_not_limited(other: Any) -> None:
    assert useful_cache_bytes(vllm_config(), {**LAYERS, "model.layers.2.attn": other}) is None


def test_model_without_full_attention_is_not_limited() -> None:
    assert useful_cache_bytes(vllm_config(), {"model.layers.0.attn": SlidingWindowSpec()}) is None
