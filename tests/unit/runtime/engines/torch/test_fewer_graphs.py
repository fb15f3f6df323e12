"""An `Optimal` plan without traffic on the torch engine: every request fits a warm bucket."""

import asyncio
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.planning.planner import make_plan
from tests.unit.runtime.engines.torch.engines import bursts, collect, count_cold_shapes, greedy, start, torch_config


async def test_bursts_run_no_cold_shape_with_fewer_graphs(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"gapless": True, "splits_prompts": True}
    config = torch_config(checkpoint, policy=BucketPolicy(strategy=Strategy.OPTIMAL), **limits)
    exponential = make_plan(BucketPolicy(strategy=Strategy.EXPONENTIAL), config.limits, 65)
    plan = make_plan(config.bucketing, config.limits, 65)
    assert len(plan.prompt) + len(plan.decode) < len(exponential.prompt) + len(exponential.decode)
    engine = start(config)
    without_graph = count_cold_shapes(monkeypatch)
    for burst in bursts(300, config.limits.max_model_len):
        await asyncio.gather(*(collect(engine, prompt, greedy(tokens)) for prompt, tokens in burst))
    assert without_graph
    assert not +without_graph
    assert all((each.misses, each.compiles) == (0, 0) for each in engine.counters.tallies.values())
    await engine.close()
