"""The blocking half of start-up, in order: load, profile, split memory, allocate, plan, warm up."""

import logging
import threading

from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import MemorySplit, Phase
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.engines.select import select_engine
from gaudi_runtime.errors import DeviceOutOfMemory, PlanImpossible
from gaudi_runtime.memory import Split, kv_blocks, split_memory
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.warmup.progress import GIB
from gaudi_runtime.warmup.runner import WarmupRunner, raise_if_stopped

log = logging.getLogger(__name__)


def start_engine(config: RuntimeConfig, board: ReportBoard, stop: threading.Event) -> Engine:
    """A loaded and warm engine; runs for seconds to an hour, so call it in the worker thread.

    Raises a RuntimeStartError with a sentence, or Stopped once `stop` is set.
    """

    def progress() -> None:
        raise_if_stopped(stop)
        board.touch()

    board.update(phase=Phase.LOADING)
    engine = select_engine(config)
    board.update(simulated=engine.simulated)
    engine.load(progress)
    progress()

    board.update(phase=Phase.PROFILING)
    warmup = config.warmup
    free = engine.profile().free
    split = split_memory(free, config.engine.device_memory_utilization, warmup.graph_memory_share)
    blocks = kv_blocks(split.kv_cache, engine.block_bytes())
    _publish(split, blocks, board)
    progress()

    board.update(phase=Phase.ALLOCATING)
    _allocate(engine, split, blocks)

    plan = make_plan(config.bucketing, config.limits, blocks)
    engine.use_plan(plan)
    WarmupRunner(config, engine, plan, split, blocks, board, stop).run()
    return engine


def _publish(split: Split, blocks: int, board: ReportBoard) -> None:
    log.info(
        "Device memory: %.2f GiB free, %.2f usable, %.2f for graphs, %.2f for %d KV blocks",
        split.free / GIB,
        split.usable / GIB,
        split.graphs / GIB,
        split.kv_cache / GIB,
        blocks,
    )
    board.update(
        memory=MemorySplit(
            free=split.free, usable=split.usable, graphs=split.graphs, kv_cache=split.kv_cache, kv_blocks=blocks
        )
    )


def _allocate(engine: Engine, split: Split, blocks: int) -> None:
    try:
        engine.allocate(blocks)
    except DeviceOutOfMemory as error:
        raise PlanImpossible(
            f"The KV cache of {blocks} blocks ({split.kv_cache / GIB:.2f} GiB) does not fit the device: {error}; "
            "lower deviceMemoryUtilization."
        ) from error
