"""A warm-up that ends early on the torch engine: every request is padded to a warm bucket."""

import asyncio
import threading
from pathlib import Path

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import RuntimeConfig, WarmupConfig
from gaudi_runtime.contract.report import BucketPhase, WarmupReport
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.engines.torch.engines import collect, count_cold_shapes, greedy, prompt_of, torch_config
from tests.unit.runtime.warmup.virtual import VirtualClock


class Slow(TorchEngine):
    """An engine whose compiles and captures each take one second of a fake clock."""

    def __init__(self, config: RuntimeConfig, clock: VirtualClock) -> None:
        super().__init__(config)
        self._clock = clock

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        super().warm(phase, bucket)
        self._clock.sleep(1)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        self._clock.sleep(1)
        return super().capture(phase, bucket)


def start_up(config: RuntimeConfig) -> tuple[TorchEngine, WarmupReport]:
    """Run the complete start-up. Return the serving engine and the report."""
    clock = VirtualClock()
    board = ReportBoard("0" * 64, clock)
    engine = start_engine(config, board, threading.Event(), lambda config: Slow(config, clock), clock).engine
    assert isinstance(engine, TorchEngine)
    engine.start_serving()
    return engine, board.report()


@pytest.mark.parametrize("contiguous", [True, False])
async def test_requests_run_no_cold_shape_after_a_partial_warm_up(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, contiguous: bool
) -> None:
    warmup = WarmupConfig(time_budget_seconds=6)
    limits = {"contiguous_paged_attention": contiguous, "gapless": True, "splits_prompts": True}
    config = torch_config(checkpoint, **limits).model_copy(update={"warmup": warmup})
    engine, report = start_up(config)
    planned = report.prompt.planned + report.decode.planned
    assert report.prompt.captured + report.decode.captured < planned
    without_graph = count_cold_shapes(monkeypatch)
    lengths = [1, 7, 20, 32, 33, 50, 63, 64, 90]
    await asyncio.gather(*(collect(engine, prompt_of(each), greedy(20)) for each in lengths))
    assert without_graph
    assert not +without_graph
    assert all((each.misses, each.compiles) == (0, 0) for each in engine.counters.tallies.values())
    await engine.close()


async def test_partial_warm_up_does_not_change_answers(checkpoint: Path) -> None:
    config = torch_config(checkpoint, gapless=True)
    part = config.model_copy(update={"warmup": WarmupConfig(time_budget_seconds=6)})
    tokens = []
    for each in (config, part):
        engine, _ = start_up(each)
        tokens.append((await collect(engine, prompt_of(20), greedy(12)))[1])
        await engine.close()
    assert tokens[0] == tokens[1]
