"""The start of an engine, step by step: fetch, load, profile, split memory, allocate, plan, warm up."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from gaudi_runtime.artifacts.recipe_cache.cache import RecipeCache
from gaudi_runtime.artifacts.sources.fetch import fetch_model
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, MemorySplitReport, Phase
from gaudi_runtime.engine_protocol.engine import (
    DividesMemory,
    Engine,
    ProfilingEngine,
)
from gaudi_runtime.engines.create_engine import create_engine
from gaudi_runtime.errors import DeviceOutOfMemory, PlanImpossible
from gaudi_runtime.memory_split import DeviceMemorySplit, count_kv_blocks_in_split, split_memory
from gaudi_runtime.plan_check import capturable_plan_graphs, check_plan_before_fetch, find_plan_gaps
from gaudi_runtime.planning.optimal.strategy import forecast_strategy_padding
from gaudi_runtime.planning.planner import make_plan_for_device
from gaudi_runtime.process.host_memory import log_stage_cost
from gaudi_runtime.process.signals import raise_if_stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.traffic.padding import Padding
from gaudi_runtime.units import format_bytes, plural
from gaudi_runtime.warmup.progress import memory_split_progress_line
from gaudi_runtime.warmup.runner import warm_up

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartedEngine:
    """A loaded and warm engine, with values that are known only after its start.

    `padding` is the forecast padding of a learned plan; empty for other plans.
    """

    engine: Engine
    padding: Mapping[BucketPhase, Padding] = field(default_factory=dict)


def start_engine(
    config: RuntimeConfig,
    board: ReportBoard,
    stop: threading.Event,
    make: Callable[[RuntimeConfig], Engine] = create_engine,
    clock: Callable[[], float] = time.monotonic,
) -> StartedEngine:
    """Start an engine and warm it up. This takes seconds to an hour, so call the function in the worker thread.

    `make` creates the engine. `clock` returns monotonic seconds. Raises a RuntimeStartError with an
    explanation, or Stopped if `stop` is set.
    """

    def record_progress() -> None:
        raise_if_stopped(stop)
        board.restart_stall_clock()

    check_plan_before_fetch(config, os.environ)
    config = fetch_model(config, board, stop)
    board.update(phase=Phase.LOADING)
    engine = make(config)
    board.pin_fields(**engine.report_fields())
    recipe_cache = RecipeCache(config, engine.recipe_key(), board, stop, clock)
    recipe_cache.restore()  # before any engine process reads the folder
    with log_stage_cost("Loading the model", clock):
        engine.load(record_progress)
    record_progress()
    with log_stage_cost("Splitting the memory", clock):
        split, blocks = _allocate_memory(config, engine, board)
    record_progress()
    plan, limits = make_plan_for_device(config.bucketing, config.limits, blocks), blocks.adjust_limits(config.limits)
    capturable = capturable_plan_graphs(plan, config, limits) if engine.captures_graphs else None
    board.update(gaps=find_plan_gaps(plan, config, blocks), capturable=capturable)
    config = config.model_copy(update={"limits": limits})
    padding = forecast_strategy_padding(config.bucketing, config.limits, plan)
    engine.use_plan(plan)
    with log_stage_cost("Warm-up", clock):
        warm_up(config, engine, plan, split, blocks.count, board, stop, clock)
    recipe_cache.publish()  # before this pod serves, so that pods that wait for it find the recipes
    return StartedEngine(engine, padding)


def _allocate_memory(
    config: RuntimeConfig, engine: Engine, board: ReportBoard
) -> tuple[DeviceMemorySplit, DeviceBlocks]:
    """Divide the memory, allocate the KV blocks, and return both results."""
    if isinstance(engine, DividesMemory):
        split, blocks = engine.split_and_blocks()
        _publish_memory(config, split, blocks, board)
        return split, blocks
    profiling_engine = cast("ProfilingEngine", engine)
    board.update(phase=Phase.PROFILING)
    free_bytes = profiling_engine.profile().free
    split = split_memory(free_bytes, config.engine.device_memory_utilization, config.warmup.graph_memory_share)
    block_count = count_kv_blocks_in_split(split.kv_cache, profiling_engine.block_bytes())
    blocks = DeviceBlocks.from_limits(block_count, config.limits)
    # Publish the memory split before the allocation, so that the report contains it even if the allocation fails.
    _publish_memory(config, split, blocks, board)
    board.update(phase=Phase.ALLOCATING)
    try:
        profiling_engine.allocate(blocks.count)
    except DeviceOutOfMemory as error:
        raise PlanImpossible(
            f"The KV cache of {plural(blocks.count, 'block')} ({format_bytes(split.kv_cache)}) does not fit into the "
            f"device memory: {error}. Lower engine.deviceMemoryUtilizationPercent."
        ) from error
    return split, blocks


def _publish_memory(config: RuntimeConfig, split: DeviceMemorySplit, blocks: DeviceBlocks, board: ReportBoard) -> None:
    log.info(
        "%s",
        memory_split_progress_line(
            split, blocks.count, config.engine.device_memory_utilization, config.warmup.graph_memory_share
        ),
    )
    board.update(
        memory=MemorySplitReport(
            free=split.free,
            usable=split.usable,
            graphs=split.graphs,
            kv_cache=split.kv_cache,
            kv_blocks=blocks.count,
            block_size=blocks.size,
        )
    )
