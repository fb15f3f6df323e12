"""A start of the engine whose workers use a fake plugin. Only vLLM's processes are fakes."""

import asyncio
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from gaudi_runtime import start_engine as start
from gaudi_runtime.contract.config import ParallelismConfig, RuntimeConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.engines.vllm import engine as adapter
from gaudi_runtime.engines.vllm import processes
from gaudi_runtime.engines.vllm.engine import VllmEngine
from gaudi_runtime.engines.vllm.launch import ORDERS_VARIABLE
from gaudi_runtime.engines.vllm.watch import Pace
from gaudi_runtime.engines.vllm.workers.driven_worker import DrivenWorker
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.engines.vllm.fake_vllm import Answers, FakeVllm
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.stand_in import bridge, plugin, serve
from tests.unit.runtime.knobs.configs import vllm_config

PROMPTS = {"batchSize": {"min": 1, "step": 1, "max": 1}, "query": {"min": 128, "step": 128, "max": 512}}
DECODES = {"batchSize": {"min": 2, "step": 2, "max": 4}, "blocks": {"min": 8, "step": 8, "max": 16}}


def two_cards(bucketing: Any = None, **engine: Any) -> RuntimeConfig:
    """Return a configuration with four prompt buckets, and decode batches of 2 and 4, on two cards."""
    return vllm_config(
        engine=engine,
        limits={"maxModelLen": 512, "maxNumSeqs": 4, "maxNumBatchedTokens": 512},
        bucketing=bucketing or {"strategy": "linear", "prompt": PROMPTS, "decode": DECODES},
        parallelism={"tensor": 2},
    )


def two_cores() -> RuntimeConfig:
    """Return the configuration of `two_cards` with a copy of the weights on each card."""
    return two_cards().model_copy(update={"parallelism": ParallelismConfig(data=2)})


@dataclass
class Cluster:
    """One worker on each card, behind a fake vLLM with `cores` engine cores."""

    cards: list[Card]
    cores: int = 1
    runners: list[Any] = field(default_factory=list)
    workers: list[DrivenWorker] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        for card in self.cards:
            runner = plugin(card)
            worker = object.__new__(DrivenWorker)
            worker.gaudi_verbs = HpuVerbs(runner, bridge(card))
            worker.gaudi_forget_warmup = lambda: None  # type: ignore[method-assign]
            self.runners.append(runner)
            self.workers.append(worker)
        self.vllm = FakeVllm(*(partial(self.reply, core) for core in range(self.cores)))

    async def reply(self, core: int, verb: str, *arguments: Any) -> Answers:
        """Answer for every rank of this core. vLLM dies at the second poll of counters."""
        self.looks += verb == "counters" and core == 0
        self.vllm.errored = self.looks > 1
        return [worker.gaudi(verb, list(arguments)) for worker in self.workers[self.ranks_of(core)]]

    def serve(self, *batches: tuple[str, tuple[int, int, int]], core: int = 0) -> None:
        """Run the same step on all ranks of this core."""
        of = self.ranks_of(core)
        for worker, runner in zip(self.workers[of], self.runners[of], strict=True):
            worker.gaudi_verbs.step(partial(serve, runner, *batches))

    def ranks_of(self, core: int) -> slice:
        """Return the slice of this core's ranks in the list of all ranks."""
        size = len(self.cards) // self.cores
        return slice(core * size, (core + 1) * size)


async def start_engine_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, config: RuntimeConfig | None = None
) -> tuple[VllmEngine, WarmupReport]:
    """Return the engine and the report after start-up in a worker thread. Only vLLM's processes are fakes."""
    monkeypatch.setenv(ORDERS_VARIABLE, "")
    monkeypatch.setattr(processes, "launch", lambda *_: (None, cluster.vllm))
    monkeypatch.setattr(adapter, "import_server", lambda: None)
    monkeypatch.setattr(start, "adjust_to_model", lambda config: config)  # the model has no files
    # Replace end_children(), because it would also end child processes that other tests have started.
    monkeypatch.setattr(adapter, "end_children", lambda: None)
    loop, board, pace = (
        asyncio.get_running_loop(),
        ReportBoard("0" * 64),
        Pace(poll_interval=0.01, check_interval=0.5, hang_timeout=30),
    )
    begun = await asyncio.to_thread(
        start_engine, config or two_cards(), board, threading.Event(), lambda config: VllmEngine(config, loop, pace)
    )
    assert isinstance(begun.engine, VllmEngine)
    return begun.engine, board.report()
