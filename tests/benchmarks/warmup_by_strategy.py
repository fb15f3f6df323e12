"""Compare warm-up and padding of Optimal without traffic with Exponential: torch engine, 300 requests in bursts.

    python -m tests.benchmarks.warmup_by_strategy

Seconds are measured on the CPU. Padding is the estimated compute (typical_cost) of the executed batches divided by the
estimated compute of the requested batches. The exit code is 1 if a batch had no warm graph.
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.planning.planner import make_plan
from tests.unit.runtime.engines.torch.engines import bursts, collect, greedy, start, torch_config

LIMITS: dict[str, Any] = {
    "max_model_len": 512,
    "max_num_seqs": 16,
    "max_num_prefill_seqs": 1,
    "max_num_batched_tokens": 512,
    "block_size": 16,
    "gapless": True,
}
KV_BLOCKS = 16 * 32 + 1
REQUESTS = 300


@dataclass(frozen=True)
class Row:
    """The warm-up and the padding of a strategy."""

    strategy: str
    graphs: int
    warmup_seconds: float
    padding: dict[BucketPhase, float]
    cold: int


def main() -> int:
    """Print the table. Return 1 if a batch had no warm graph."""
    with tempfile.TemporaryDirectory() as place:
        folder = make_checkpoint(Path(place) / "model")
        rows = [_measured(folder, each) for each in (Strategy.EXPONENTIAL, Strategy.OPTIMAL)]
    heads = ("strategy", "graphs", "warm-up s", "prompt padding", "decode padding", "cold batches")
    sys.stdout.write("{:14}{:>8}{:>11}{:>16}{:>16}{:>14}\n".format(*heads))
    for row in rows:
        padding = "".join(f"{row.padding[phase]:16.3f}" for phase in BucketPhase)
        sys.stdout.write(f"{row.strategy:14}{row.graphs:8}{row.warmup_seconds:11.1f}{padding}{row.cold:14}\n")
    return int(any(row.cold for row in rows))


def _measured(folder: Path, strategy: Strategy) -> Row:
    config = torch_config(
        folder, policy=BucketPolicy(strategy=strategy), engine={"device_memory_bytes": 1 << 28}, **LIMITS
    )
    begin = time.perf_counter()
    engine = start(config, KV_BLOCKS)
    seconds = time.perf_counter() - begin
    asyncio.run(_serve(engine))
    counters = engine.counters
    plan = make_plan(config.bucketing, config.limits, KV_BLOCKS)
    return Row(
        spec_spelling(strategy),
        len(plan.prompt) + len(plan.decode),
        seconds,
        {phase: _padding(engine, phase) for phase in BucketPhase},
        sum(counters.cold_batches.values()) + counters.recompiles,
    )


async def _serve(engine: TorchEngine) -> None:
    for burst in bursts(REQUESTS, LIMITS["max_model_len"]):
        await asyncio.gather(*(collect(engine, prompt, greedy(tokens)) for prompt, tokens in burst))
    await engine.close()


def _padding(engine: TorchEngine, phase: BucketPhase) -> float:
    cost, served = typical_cost(LIMITS["block_size"]), engine.counters
    ran = sum(each.batches * cost(met, bucket) for (met, bucket), each in served.tallies.items() if met is phase)
    return ran / sum(batches * cost(phase, shape) for shape, batches in served.traffic().shapes_of(phase).items())


if __name__ == "__main__":
    sys.exit(main())
