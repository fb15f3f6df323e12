"""Torch engines with tiny checkpoints, started in the same way as by the orchestrator."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, DecodeRanges, Limits, PromptRanges, RangeSettings, Strategy
from gaudi_runtime.contract.config import EngineConfig, EngineName, ExecutionMode, ModelConfig, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import GenerationChunk, SamplingParams
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.engines.torch.graphs import GraphTable
from gaudi_runtime.planning.planner import make_plan

MIB = 1024**2
EAGER = {"execution_mode": ExecutionMode.EAGER}
LIMITS: dict[str, Any] = {
    "max_model_len": 128,
    "max_num_seqs": 4,
    "max_num_prefill_seqs": 2,
    "max_num_batched_tokens": 64,
    "block_size": 8,
}
"""Small blocks, so that short sequences have several."""


def ranges(smallest: int, step: int, largest: int) -> RangeSettings:
    """Return one dimension of a linear policy."""
    return RangeSettings(min=smallest, step=step, max=largest)


FEW_BUCKETS = BucketPolicy(
    strategy=Strategy.LINEAR,
    prompt=PromptRanges(batch_size=ranges(1, 1, 2), query=ranges(32, 32, 64)),
    decode=DecodeRanges(batch_size=ranges(2, 2, 4), blocks=ranges(16, 16, 32)),
)
"""Prompt (1, 32), (1, 64), (2, 32). Decode 2 or 4 rows with 16 or 32 blocks, or the whole cache."""


def torch_config(
    folder: Path, *, policy: BucketPolicy = FEW_BUCKETS, engine: dict[str, Any] | None = None, **limits: Any
) -> RuntimeConfig:
    """Return the configuration of a torch engine on the CPU with 64 MiB of device memory."""
    settings: dict[str, Any] = {"device_memory_bytes": 64 * MIB} | (engine or {})
    return RuntimeConfig(
        model=ModelConfig(path=str(folder), served_names=("tiny",)),
        engine=EngineConfig(name=EngineName.TORCH, **settings),
        limits=Limits(**LIMITS | limits),
        bucketing=policy,
    )


def prompt_of(length: int, seed: int = 0) -> list[int]:
    """Return random token ids without special tokens."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return [int(token) for token in torch.randint(3, 512, (length,), generator=generator)]


def start(config: RuntimeConfig, kv_blocks: int = 65, *, warm: bool = True) -> TorchEngine:
    """Return an engine that has loaded, allocated and planned, and is warm unless `warm` is False."""
    engine = TorchEngine(config)
    engine.load(_nothing)
    engine.profile()
    engine.allocate(kv_blocks)
    plan = make_plan(config.bucketing, config.limits, kv_blocks)
    engine.use_plan(plan)
    for phase in BucketPhase:
        for bucket in plan.buckets_of(phase):
            if warm:
                engine.warm(phase, bucket)
            if warm and engine.captures_graphs:
                engine.capture(phase, bucket)
    engine.start_serving()
    return engine


async def collect(
    engine: TorchEngine, prompt: list[int], sampling: SamplingParams
) -> tuple[str, list[int], str | None]:
    """Return text, token ids and finish reason of one completion."""
    chunks: list[GenerationChunk] = [chunk async for chunk in engine.generate(prompt, sampling)]
    tokens = [token for chunk in chunks for token in chunk.token_ids]
    return "".join(chunk.text for chunk in chunks), tokens, chunks[-1].finish_reason


async def answers(engine: TorchEngine, prompts: list[list[int]], sampling: SamplingParams) -> list[list[int]]:
    """Return the token ids of concurrent completions."""
    return [tokens for _, tokens, _ in await asyncio.gather(*(collect(engine, p, sampling) for p in prompts))]


def greedy(max_tokens: int, **settings: Any) -> SamplingParams:
    """Return parameters of greedy decoding for exactly `max_tokens` tokens."""
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, **settings)


def bursts(requests: int, longest: int, largest: int = 12) -> Iterator[list[tuple[list[int], int]]]:
    """Yield groups of prompts that arrive together. Each prompt has its own length and number of answer tokens."""
    random = Random(37)  # noqa: S311 - the same load in every run
    while requests:
        count = min(requests, random.randint(1, largest))
        lengths = [random.choice((random.randint(1, 16), random.randint(1, longest - 8))) for _ in range(count)]
        yield [(prompt_of(length, seed), random.randint(1, 7)) for seed, length in enumerate(lengths)]
        requests -= count


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until the condition holds. The test's own timeout limits the wait."""
    while not condition():  # noqa: ASYNC110 (the engine has no event for what tests look at)
        await asyncio.sleep(0)


Ran = Counter[tuple[BucketPhase, Bucket]]


def count_cold_shapes(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Count the shapes that run without a graph, independently of the engine's counts."""
    found: Ran = Counter()
    run = GraphTable.run

    def counted(self: GraphTable, phase: BucketPhase, bucket: Bucket, works: Any) -> Any:
        found[phase, bucket] += not self.is_captured(phase, bucket)
        return run(self, phase, bucket, works)

    monkeypatch.setattr(GraphTable, "run", counted)
    return found


def _nothing() -> None:
    pass
