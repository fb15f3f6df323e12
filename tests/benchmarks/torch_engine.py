"""Tokens per second and graph hit rate of the torch engine compared with transformers.generate on one checkpoint.

    python -m tests.benchmarks.torch_engine

Prompts have different lengths. `generate` gets all prompts as one left-padded batch, which is its best case. The table
shows the best of several runs, because other load can only slow a run down. There are no limits.
"""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from transformers import AutoModelForCausalLM

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.contract.bucketing import BucketPolicy, DecodeRanges, PromptRanges, RangeSettings, Strategy
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.torch.engine import TorchEngine
from tests.unit.runtime.engines.torch.engines import answers, greedy, prompt_of, start, torch_config

POLICY = BucketPolicy(
    strategy=Strategy.LINEAR,
    prompt=PromptRanges(batch_size=RangeSettings(min=1, step=1, max=2), query=RangeSettings(min=64, step=64, max=128)),
    decode=DecodeRanges(batch_size=RangeSettings(min=1, step=8, max=8), blocks=RangeSettings(min=32, step=32, max=128)),
)
LIMITS: dict[str, Any] = {
    "max_model_len": 256,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 256,
    "block_size": 16,
}
RUNS = 4
PROMPTS = [prompt_of(16 + 14 * seed, seed) for seed in range(8)]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    warmup_seconds: float
    tokens_per_second: float
    hit_rate: str


def engine_row(name: str, folder: Path, prompts: list[list[int]], tokens: int, **engine: Any) -> Row:
    """Warm up an engine, run the prompts concurrently, and return its row."""
    config = torch_config(folder, policy=POLICY, engine={"device_memory_bytes": 1 << 28} | engine, **LIMITS)
    started = time.perf_counter()
    torch_engine = start(config, kv_blocks=129)
    warm = time.perf_counter()
    seconds = asyncio.run(_timed(torch_engine, prompts, tokens))
    counters = torch_engine.counters
    batches = counters.hits + sum(counters.cold_batches.values())
    return Row(name, warm - started, len(prompts) * tokens / seconds, f"{100 * counters.hits // batches} %")


async def _timed(engine: TorchEngine, prompts: list[list[int]], tokens: int) -> float:
    runs = []
    for _ in range(RUNS):
        started = time.perf_counter()
        await answers(engine, prompts, greedy(tokens))
        runs.append(time.perf_counter() - started)
    await engine.close()
    return min(runs)


def generate_row(folder: Path, prompts: list[list[int]], tokens: int) -> Row:
    """Run the same work with transformers."""
    started = time.perf_counter()
    network: Any = AutoModelForCausalLM.from_pretrained(folder)
    network.generation_config.eos_token_id = None
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    warm = time.perf_counter()
    runs = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        network.generate(ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False)
        runs.append(time.perf_counter() - begin)
    name = f"transformers.generate, batch {len(prompts)}"
    return Row(name, warm - started, len(prompts) * tokens / min(runs), "-")


def main(
    tokens: Annotated[int, typer.Option(help="Answer length of each request.")] = 100,
) -> None:
    """Print the table."""
    torch.set_num_threads(1)  # the engine's choice for a model of this size; transformers gets the same
    with tempfile.TemporaryDirectory() as place:
        folder = make_checkpoint(Path(place) / "model")
        rows = []
        for prompts in (PROMPTS[:1], PROMPTS):
            size = f"{len(prompts)} at once"
            rows.append(generate_row(folder, prompts, tokens))
            rows.append(engine_row(f"eager mode, {size}", folder, prompts, tokens, execution_mode=ExecutionMode.EAGER))
            rows.append(engine_row(f"graphs (dynamo), {size}", folder, prompts, tokens))
    typer.echo(f"{'':32} {'start-up s':>10} {'tokens/s':>10} {'graph hits':>10}")
    for row in rows:
        typer.echo(f"{row.name:32} {row.warmup_seconds:10.1f} {row.tokens_per_second:10.0f} {row.hit_rate:>10}")


if __name__ == "__main__":
    typer.run(main)
