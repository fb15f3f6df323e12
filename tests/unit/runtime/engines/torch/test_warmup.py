"""The engine's verbs for start-up: what the verbs count, allocate and refuse."""

import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.torch.buffers import Geometry, buffer_bytes, empty_buffers
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.engines.torch.runner import ModelRunner
from gaudi_runtime.errors import DeviceOutOfMemory
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from gaudi_runtime.warmup.schedule import warmup_swap_sizes
from tests.unit.runtime.engines.torch.conftest import Reference
from tests.unit.runtime.engines.torch.engines import EAGER, answers, collect, greedy, prompt_of, start, torch_config

GEOMETRY = Geometry(
    layer_count=2,
    hidden_size=16,
    vocabulary_size=64,
    kv_heads=2,
    head_dim=8,
    block_size=4,
    dtype=torch.bfloat16,
    contiguous_attention=False,
)
PROMPT = BucketPhase.PROMPT
BUCKET = Bucket(1, 32, 0)


def loaded(folder: Path, kv_blocks: int = 9, **engine: object) -> TorchEngine:
    torch_engine = TorchEngine(torch_config(folder, engine=dict(engine)))
    torch_engine.load(lambda: None)
    torch_engine.profile()
    torch_engine.allocate(kv_blocks)
    return torch_engine


@given(st.sampled_from(list(BucketPhase)), st.builds(Bucket, st.integers(1, 4), st.integers(1, 9), st.integers(0, 9)))
def test_bytes_of_a_bucket_are_the_sum_of_its_buffers(phase: BucketPhase, bucket: Bucket) -> None:
    buffers = empty_buffers(GEOMETRY, phase, bucket, torch.device("cpu"))
    assert buffer_bytes(GEOMETRY, phase, bucket) == sum(tensor.nbytes for tensor in buffers)


def test_block_bytes_follow_the_formula(checkpoint: Path) -> None:
    layers, block_size, kv_heads, head_dim, float32 = 2, 8, 2, 32, 4
    assert loaded(checkpoint).block_bytes() == 2 * block_size * kv_heads * head_dim * float32 * layers


def test_capture_reduces_free_memory_by_the_reported_bytes(checkpoint: Path) -> None:
    engine = loaded(checkpoint)
    engine.warm(PROMPT, BUCKET)
    before = engine.memory().free
    taken = engine.capture(PROMPT, BUCKET)
    assert taken == before - engine.memory().free > 32 * 128 * 4


def test_capture_without_room_leaves_the_free_memory_unchanged(checkpoint: Path) -> None:
    engine = loaded(checkpoint)
    free = engine.memory().free
    with pytest.raises(DeviceOutOfMemory, match="bytes are needed, but only"):
        engine.capture(PROMPT, Bucket(4096, 64, 0))
    assert engine.memory().free == free


def test_cache_beyond_the_budget_is_refused(checkpoint: Path) -> None:
    engine = loaded(checkpoint)
    with pytest.raises(DeviceOutOfMemory, match=r"engine\.deviceMemoryBytes"):
        engine.allocate(10**6)


def test_profile_reserves_memory_for_the_largest_prompt(checkpoint: Path) -> None:
    engine = TorchEngine(torch_config(checkpoint))
    engine.load(lambda: None)
    loaded_free = engine.memory().free
    assert engine.profile().free < loaded_free


async def test_bucket_without_a_graph_is_served_cold(checkpoint: Path, reference: Reference) -> None:
    engine = start(torch_config(checkpoint), warm=False)
    engine.warm(PROMPT, BUCKET)
    engine.warm(BucketPhase.DECODE, Bucket(2, 1, 16))
    engine.start_serving()
    assert await answers(engine, [prompt_of(20)], greedy(8)) == [reference(prompt_of(20), 8)]
    assert (engine.counters.hits, engine.counters.recompiles) == (0, 0)
    assert sum(engine.counters.cold_batches.values()) == 8
    await engine.close()


async def test_without_warm_up_every_shape_compiles_once(checkpoint: Path, reference: Reference) -> None:
    engine = start(torch_config(checkpoint), warm=False)
    assert await answers(engine, [prompt_of(20)], greedy(8)) == [reference(prompt_of(20), 8)]
    assert engine.counters.recompiles == len(engine.counters.cold_batches) == 2
    await engine.close()


async def test_eager_mode_captures_no_graph_and_does_not_recompile(checkpoint: Path) -> None:
    engine = start(torch_config(checkpoint, engine=EAGER))
    await collect(engine, prompt_of(20), greedy(8))
    assert (engine.captures_graphs, engine.counters.hits, engine.counters.recompiles) == (False, 8, 0)
    await engine.close()


def test_moved_blocks_keep_their_content(checkpoint: Path) -> None:
    runner = ModelRunner(torch_config(checkpoint))
    runner.load(lambda: None)
    runner.allocate(9)
    with torch.inference_mode():
        for layer in runner.cache:
            for tensor in layer:
                tensor.normal_()
    before = [tensor.clone().unflatten(0, (9, 8)) for layer in runner.cache for tensor in layer]
    runner.move_blocks({7: 0, 5: 3})
    after = [tensor.unflatten(0, (9, 8)) for layer in runner.cache for tensor in layer]
    for old, new in zip(before, after, strict=True):
        assert torch.equal(new[[0, 3]], old[[7, 5]])
        assert torch.equal(new[[1, 2, 4, 5, 6, 7, 8]], old[[1, 2, 4, 5, 6, 7, 8]])


@pytest.mark.parametrize("batch_size", [0, 1, 4])
def test_sampler_runs_twelve_times_per_batch_size(checkpoint: Path, batch_size: int) -> None:
    runs: list[None] = []
    loaded(checkpoint).warm_sampler(batch_size, lambda: runs.append(None))
    assert len(runs) == 12


def test_defragmenter_warm_up_runs_every_swap_size(checkpoint: Path) -> None:
    runs: list[None] = []
    loaded(checkpoint).warm_defragmenter(lambda: runs.append(None))
    assert len(runs) == len(warmup_swap_sizes()) == 8


@pytest.mark.parametrize("prefix_caching", [False, True])
async def test_cache_is_limited_to_sequences_without_prefix_caching(checkpoint: Path, prefix_caching: bool) -> None:
    board = ReportBoard("0" * 64)
    config = torch_config(checkpoint, engine=EAGER, prefix_caching=prefix_caching)
    await start_engine(config, board, threading.Event()).engine.close()
    memory = board.report().memory
    assert memory is not None
    filled = 4 * 128 // 8 + 1
    assert memory.kv_blocks > filled if prefix_caching else memory.kv_blocks == filled
    assert memory.graphs + memory.kv_cache == memory.usable
