"""Requests on a warm engine: counters, cancellation, sampling, stop strings."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.errors import PlanImpossible
from tests.unit.runtime.engines.torch.conftest import Reference
from tests.unit.runtime.engines.torch.engines import (
    EAGER,
    answers,
    collect,
    greedy,
    prompt_of,
    start,
    torch_config,
    until,
)


async def test_planned_shapes_never_recompile(engine: TorchEngine) -> None:
    for count in (1, 2, 3, 4, 7):
        await answers(engine, [prompt_of(10 + 7 * seed, seed) for seed in range(count)], greedy(30))
    assert (engine.counters.recompiles, engine.counters.cold_batches) == (0, {})
    assert engine.counters.hits > 100


async def test_shape_outside_the_plan_is_counted_as_cold(engine: TorchEngine) -> None:
    """A prompt of 100 tokens exceeds maxNumBatchedTokens (64), so its second part needs a context of 8 blocks."""
    await collect(engine, prompt_of(100), greedy(1))
    await collect(engine, prompt_of(100), greedy(1))
    assert engine.counters.cold_batches == {(BucketPhase.PROMPT, Bucket(1, 64, 16)): 2}
    assert engine.counters.recompiles == engine.counters.tallies[BucketPhase.PROMPT, Bucket(1, 64, 16)].compiles == 1


async def test_cancelled_request_frees_its_blocks(engine: TorchEngine) -> None:
    stream = engine.generate(prompt_of(40), greedy(80))
    await anext(stream)
    assert engine.current_load().used_blocks == 6
    await stream.aclose()
    assert engine.current_load().used_blocks == 0


async def test_cancelled_asyncio_task_frees_its_blocks(engine: TorchEngine) -> None:
    task = asyncio.ensure_future(collect(engine, prompt_of(40), greedy(80)))
    await until(lambda: engine.current_load().running == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.current_load().used_blocks == 0


async def test_cancelled_request_does_not_change_others(engine: TorchEngine) -> None:
    alone = await collect(engine, prompt_of(20), greedy(40))
    stream = engine.generate(prompt_of(30), greedy(80))
    await anext(stream)
    together = asyncio.ensure_future(collect(engine, prompt_of(20), greedy(40)))
    await anext(stream)
    await stream.aclose()
    assert await together == alone


async def test_load_has_the_running_and_waiting_sequences(engine: TorchEngine) -> None:
    tasks = [asyncio.ensure_future(collect(engine, prompt_of(8, seed), greedy(40))) for seed in range(6)]
    await until(lambda: engine.current_load().running == 4)
    load = engine.current_load()
    assert (load.running, load.waiting, load.total_blocks) == (4, 2, 64)
    await asyncio.gather(*tasks)
    assert engine.current_load().running == 0


@pytest.mark.parametrize("seed", [0, 11])
async def test_same_seed_returns_the_same_answer(engine: TorchEngine, seed: int) -> None:
    sampling = SamplingParams(temperature=1.0, top_p=0.95, top_k=50, seed=seed, max_tokens=30, ignore_eos=True)
    _, alone, _ = await collect(engine, prompt_of(12), sampling)
    assert await answers(engine, [prompt_of(12), prompt_of(25), prompt_of(12)], sampling) == [
        alone,
        (await collect(engine, prompt_of(25), sampling))[1],
        alone,
    ]


async def test_different_seeds_return_different_answers(engine: TorchEngine) -> None:
    params = [SamplingParams(seed=seed, max_tokens=30, ignore_eos=True) for seed in (1, 2)] + [
        SamplingParams(max_tokens=30, ignore_eos=True) for _ in range(2)
    ]
    outcomes = await asyncio.gather(*(collect(engine, prompt_of(12), one) for one in params))
    assert len({tuple(tokens) for _, tokens, _ in outcomes}) == 4


async def test_preempted_sequence_returns_the_same_seeded_answer(engine: TorchEngine, checkpoint: Path) -> None:
    sampling = SamplingParams(seed=5, max_tokens=50, ignore_eos=True)
    prompts = [prompt_of(10, seed) for seed in range(3)]
    expected = await answers(engine, prompts, sampling)
    small = start(torch_config(checkpoint, engine=EAGER), kv_blocks=10)
    assert await answers(small, prompts, sampling) == expected
    await small.close()


async def test_max_tokens_ends_the_answer_with_reason_length(engine: TorchEngine) -> None:
    _, tokens, reason = await collect(engine, prompt_of(5), greedy(3))
    assert (len(tokens), reason) == (3, "length")


async def test_stop_string_ends_the_answer_and_is_excluded(engine: TorchEngine) -> None:
    text, tokens, _ = await collect(engine, prompt_of(5), greedy(40))
    stop = text[10:16]
    stopped, fewer, reason = await collect(engine, prompt_of(5), greedy(40, stop=(stop,)))
    assert (stopped, reason) == (text[: text.index(stop)], "stop")
    assert fewer == tokens[: len(fewer)]
    assert len(fewer) < 40


async def test_end_of_sequence_token_ends_the_answer_with_reason_stop(
    checkpoint: Path, reference: Reference, tmp_path: Path
) -> None:
    """The test adds a token that the model is known to generate to the checkpoint's list of end tokens."""
    folder, expected = shutil.copytree(checkpoint, tmp_path / "model"), reference(prompt_of(5), 20)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, expected[9]]}))
    engine = start(torch_config(folder, engine=EAGER))
    sampling = SamplingParams(temperature=0.0, max_tokens=20)
    text, tokens, reason = await collect(engine, prompt_of(5), sampling)
    assert (tokens, reason) == (expected[: expected.index(expected[9]) + 1], "stop")
    assert text == engine.tokenizer.decode(tokens[:-1])
    await engine.close()


async def test_inadmissible_request_is_refused_with_a_message(engine: TorchEngine) -> None:
    assert engine.why_not_admissible(64, 64) is None
    with pytest.raises(ValueError, match="The sum of 129 exceeds the model's maximum length of 128"):
        engine.generate(prompt_of(65), greedy(64))
    with pytest.raises(ValueError, match="at least one token"):
        engine.generate([], greedy(1))


async def test_request_larger_than_the_cache_is_refused(checkpoint: Path) -> None:
    engine = start(torch_config(checkpoint), kv_blocks=5, warm=False)
    with pytest.raises(ValueError, match="The sum of 40 exceeds the 32 tokens that fit into the KV cache"):
        engine.generate(prompt_of(20), greedy(20))
    await engine.close()


async def test_heartbeat_is_zero_when_idle(engine: TorchEngine) -> None:
    stream = engine.generate(prompt_of(5), greedy(20))
    await anext(stream)
    assert engine.heartbeat_seconds() > 0
    await stream.aclose()
    await until(lambda: engine.heartbeat_seconds() == 0)


async def test_closed_engine_ends_its_requests(checkpoint: Path) -> None:
    engine = start(torch_config(checkpoint), warm=False)
    stream = engine.generate(prompt_of(5), greedy(100))
    await anext(stream)
    await engine.close()
    with pytest.raises(RuntimeError, match="the engine is closed"):
        _ = [chunk async for chunk in stream]


def test_cache_of_a_single_block_is_an_impossible_plan(checkpoint: Path) -> None:
    with pytest.raises(PlanImpossible, match="memory for 1 KV blocks"):
        start(torch_config(checkpoint), kv_blocks=1)


async def test_failing_step_ends_its_request_and_not_the_engine(checkpoint: Path) -> None:
    """The plan has no decode buckets, so the second token has no fallback."""
    engine = start(torch_config(checkpoint, engine=EAGER))
    engine.use_plan(BucketPlan(prompt=(Bucket(1, 64, 0),), decode=()))
    engine.start_serving()
    with pytest.raises(ValueError, match="empty"):
        await collect(engine, prompt_of(5), greedy(2))
    assert engine.current_load().used_blocks == 0
    assert (await collect(engine, prompt_of(5), greedy(1)))[2] == "length"
    await engine.close()
