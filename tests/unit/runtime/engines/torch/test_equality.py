"""Greedy answers equal plain transformers.generate token for token, regardless of batching and padding."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from gaudi_runtime.engines.torch.engine import TorchEngine
from tests.unit.runtime.engines.torch.conftest import Reference, reference_of
from tests.unit.runtime.engines.torch.engines import EAGER, answers, collect, greedy, prompt_of, start, torch_config

MIXED = [prompt_of(length) for length in (3, 17, 32, 40, 1, 64, 8, 25)]
"""More prompts than fit a batch, of lengths around the sizes of buckets and blocks."""


@pytest.mark.parametrize("length", [1, 5, 31, 32, 33, 63, 64])
async def test_prompt_of_any_length_equals_generate(engine: TorchEngine, reference: Reference, length: int) -> None:
    _, tokens, _ = await collect(engine, prompt_of(length), greedy(20))
    assert tokens == reference(prompt_of(length), 20)


async def test_prompt_that_fills_its_bucket_equals_generate(engine: TorchEngine, reference: Reference) -> None:
    prompts = [prompt_of(32, seed) for seed in range(4)]
    assert await answers(engine, prompts, greedy(32)) == [reference(prompt, 32) for prompt in prompts]


async def test_mixed_lengths_equal_generate(engine: TorchEngine, reference: Reference) -> None:
    assert await answers(engine, MIXED, greedy(24)) == [reference(prompt, 24) for prompt in MIXED]


async def test_requests_that_arrive_during_decode_equal_generate(engine: TorchEngine, reference: Reference) -> None:
    first, *later = MIXED
    stream = engine.generate(first, greedy(60))
    tokens = [token for _ in range(10) for token in (await anext(stream)).token_ids]
    others = asyncio.create_task(answers(engine, later, greedy(24)))
    tokens += [token async for chunk in stream for token in chunk.token_ids]
    assert tokens == reference(first, 60)
    assert await others == [reference(prompt, 24) for prompt in later]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
async def test_every_family_equals_generate(checkpoints: dict[str, Path], family: str) -> None:
    engine = start(torch_config(checkpoints[family], engine=EAGER))
    generate = reference_of(checkpoints[family])
    assert await answers(engine, MIXED, greedy(16)) == [generate(prompt, 16) for prompt in MIXED]
    await engine.close()


async def test_gathered_blocks_equal_generate(checkpoint: Path, reference: Reference) -> None:
    engine = start(torch_config(checkpoint, engine=EAGER, contiguous_paged_attention=False))
    assert await answers(engine, MIXED, greedy(24)) == [reference(prompt, 24) for prompt in MIXED]
    await engine.close()


@pytest.mark.parametrize("budget", [32, 36], ids=["whole blocks", "no whole blocks"])
async def test_split_prompt_equals_generate(checkpoint: Path, reference: Reference, budget: int) -> None:
    engine = start(torch_config(checkpoint, engine=EAGER, max_num_batched_tokens=budget))
    prompts = [prompt_of(100), prompt_of(33), prompt_of(65)]
    assert await answers(engine, prompts, greedy(20)) == [reference(prompt, 20) for prompt in prompts]
    await engine.close()


async def test_preempted_sequences_equal_generate(checkpoint: Path, reference: Reference) -> None:
    """Eleven blocks are enough for one long answer but not for four, so younger sequences are preempted."""
    engine = start(torch_config(checkpoint, engine=EAGER), kv_blocks=12)
    prompts = [prompt_of(length) for length in (9, 15, 12, 10)]
    assert await answers(engine, prompts, greedy(60)) == [reference(prompt, 60) for prompt in prompts]
    await engine.close()


async def test_defragmented_cache_equals_generate(checkpoint: Path, reference: Reference) -> None:
    """After three long sequences end, the remaining sequence has high block numbers, so its blocks are moved."""
    engine = start(torch_config(checkpoint, engine=EAGER))
    neighbours = [asyncio.ensure_future(collect(engine, prompt_of(64, seed), greedy(40))) for seed in range(3)]
    await collect(engine, prompt_of(1), greedy(1))
    survivor = asyncio.ensure_future(collect(engine, prompt_of(20), greedy(100)))
    await asyncio.gather(*neighbours)
    _, tokens, _ = await survivor
    assert tokens == reference(prompt_of(20), 100)
    await engine.close()


@pytest.mark.parametrize("rope", ["linear", "llama3", "yarn"])
async def test_every_rope_type_equals_generate(checkpoints: dict[str, Path], tmp_path: Path, rope: str) -> None:
    folder = shutil.copytree(checkpoints["llama"], tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {
        "rope_type": rope,
        "rope_theta": 10000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    (folder / "config.json").write_text(json.dumps(config))
    engine, generate = start(torch_config(folder, engine=EAGER)), reference_of(folder)
    assert await answers(engine, MIXED, greedy(16)) == [generate(prompt, 16) for prompt in MIXED]
    await engine.close()
