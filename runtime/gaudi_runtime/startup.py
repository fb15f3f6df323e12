"""The blocking half of start-up, in order: fetch, load, profile, split memory, allocate, plan, warm up.

Around it, recipes are taken from those that pods share, and added to them.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import cast

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import MemorySplit, Phase
from gaudi_runtime.engines.protocol import DividedMemory, Engine, OwnMemory
from gaudi_runtime.engines.select import select_engine
from gaudi_runtime.errors import DeviceOutOfMemory, PlanImpossible
from gaudi_runtime.memory import Split, kv_blocks, split_memory
from gaudi_runtime.plan import make_plan
from gaudi_runtime.recipe_cache.cache import RecipeCache
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.signals import raise_if_stopped
from gaudi_runtime.sources.start import with_model_here
from gaudi_runtime.units import size
from gaudi_runtime.warmup.log_lines import memory_split
from gaudi_runtime.warmup.runner import warm_up

log = logging.getLogger(__name__)


def start_engine(
    config: RuntimeConfig,
    board: ReportBoard,
    stop: threading.Event,
    make: Callable[[RuntimeConfig], Engine] = select_engine,
    clock: Callable[[], float] = time.monotonic,
) -> Engine:
    """A loaded and warm engine; runs for seconds to an hour, so call it in the worker thread.

    `make` makes the engine; `clock` returns monotonic seconds.
    Raises a RuntimeStartError with a sentence, or Stopped once `stop` is set.
    """

    def progress() -> None:
        raise_if_stopped(stop)
        board.touch()

    config = with_model_here(config, board, stop)
    board.update(phase=Phase.LOADING)
    engine = make(config)
    board.keep(**engine.report_fields())
    recipes = RecipeCache(config, engine.recipe_key(), board, stop, clock)
    recipes.take()  # before any process of an engine looks into its folder
    engine.load(progress)
    progress()

    split, blocks = _memory(config, engine, board)
    progress()

    plan = make_plan(config.bucketing, config.limits, blocks)
    engine.use_plan(plan)
    warm_up(config, engine, plan, split, blocks, board, stop, clock)
    recipes.publish()  # before this pod serves, so that those that wait for it find them
    return engine


def _memory(config: RuntimeConfig, engine: Engine, board: ReportBoard) -> tuple[Split, int]:
    """The split and the KV blocks, which are allocated then."""
    if isinstance(engine, DividedMemory):
        split, blocks = engine.divided_memory()
        _publish(config, split, blocks, board)
        return split, blocks
    return _divide(config, cast("OwnMemory", engine), board)


def _divide(config: RuntimeConfig, engine: OwnMemory, board: ReportBoard) -> tuple[Split, int]:
    board.update(phase=Phase.PROFILING)
    free = engine.profile().free
    split = split_memory(free, config.engine.device_memory_utilization, config.warmup.graph_memory_share)
    blocks = kv_blocks(split.kv_cache, engine.block_bytes())
    _publish(config, split, blocks, board)
    board.update(phase=Phase.ALLOCATING)
    _allocate(engine, split, blocks)
    return split, blocks


def _publish(config: RuntimeConfig, split: Split, blocks: int, board: ReportBoard) -> None:
    log.info(
        "%s", memory_split(split, blocks, config.engine.device_memory_utilization, config.warmup.graph_memory_share)
    )
    board.update(
        memory=MemorySplit(
            free=split.free, usable=split.usable, graphs=split.graphs, kv_cache=split.kv_cache, kv_blocks=blocks
        )
    )


def _allocate(engine: OwnMemory, split: Split, blocks: int) -> None:
    try:
        engine.allocate(blocks)
    except DeviceOutOfMemory as error:
        raise PlanImpossible(
            f"The KV cache of {blocks} blocks ({size(split.kv_cache)}) does not fit the device: {error}; "
            "lower deviceMemoryUtilization."
        ) from error
