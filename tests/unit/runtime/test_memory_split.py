"""The split of free device memory into KV cache, margin and graphs, compared with the logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.memory_split import (
    OWN_BLOCKS,
    count_kv_blocks_in_split,
    graph_pool,
    limit_kv_cache,
    max_useful_blocks_in_split,
    split_memory,
)

GIB = 2**30
SHARE = st.floats(0, 1)
BYTES = st.integers(0, 2**45)


def gib(value: float) -> int:
    return round(value * GIB)


def test_seed_000_split_leaves_the_logged_gibibytes() -> None:
    split = split_memory(gib(79.16), utilization=0.5, graph_memory_share=0.4)
    assert split.usable / GIB == pytest.approx(39.58, abs=0.005)
    assert split.graphs / GIB == pytest.approx(15.83, abs=0.005)
    assert split.kv_cache / GIB == pytest.approx(23.75, abs=0.005)


def test_seed_000_llama_3_1_8b_has_1519_blocks() -> None:
    split = split_memory(gib(79.16), utilization=0.5, graph_memory_share=0.4)
    assert count_kv_blocks_in_split(split.kv_cache, 16 * 2**20) == 1519


def test_seed_000_pool_is_split_by_the_prompt_ratio() -> None:
    split = split_memory(gib(79.16), utilization=0.5, graph_memory_share=0.4)
    pool = graph_pool(gib(55.43), split.margin, prompt_ratio=0.3)
    assert pool.total_bytes / GIB == pytest.approx(15.85, abs=0.005)
    assert pool.prompt_bytes / GIB == pytest.approx(4.755, abs=0.0005)
    assert pool.decode_bytes / GIB == pytest.approx(11.095, abs=0.0005)


def test_cache_smaller_than_a_block_is_refused() -> None:
    with pytest.raises(
        PlanImpossible, match="only 1023 bytes are left for the KV cache, but one block takes 1024 bytes"
    ):
        count_kv_blocks_in_split(1023, 1024)


@pytest.mark.parametrize(("length", "blocks"), [(256, 2), (257, 3), (383, 3), (384, 3)])
def test_every_sequence_of_the_maximum_length_has_its_blocks(length: int, blocks: int) -> None:
    limits = Limits(max_model_len=length, max_num_seqs=4, max_num_batched_tokens=512, block_size=128)
    assert max_useful_blocks_in_split(limits) == 4 * blocks + OWN_BLOCKS


def test_memory_of_useless_kv_blocks_goes_to_graphs() -> None:
    limits = Limits(max_model_len=200, max_num_seqs=1, max_num_batched_tokens=256, block_size=128)
    split, blocks = limit_kv_cache(split_memory(100, utilization=0.9, graph_memory_share=0.5), 10, limits)
    assert (blocks, split.kv_cache, split.graphs, split.usable, split.margin) == (3, 30, 60, 90, 10)


def test_pool_of_less_memory_than_the_margin_is_empty() -> None:
    assert graph_pool(free_bytes=10, margin_bytes=11, prompt_ratio=0.3).total_bytes == 0


@given(BYTES, SHARE, SHARE)
def test_split_adds_up_to_the_free_memory(free: int, utilization: float, share: float) -> None:
    split = split_memory(free, utilization, share)
    assert split.graphs + split.kv_cache + split.margin == free
    assert min(split.graphs, split.kv_cache, split.margin) >= 0


@given(BYTES, BYTES, SHARE)
def test_shares_add_up_to_the_pool(free: int, margin: int, ratio: float) -> None:
    pool = graph_pool(free, margin, ratio)
    assert pool.prompt_bytes + pool.decode_bytes == pool.total_bytes
    assert min(pool.prompt_bytes, pool.decode_bytes) >= 0
