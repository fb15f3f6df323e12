"""Walk the schedule of a plan against an engine, in one worker thread: compile, sampler, defragmenter, capture.

Order, budget, progress and stop are decided here; an engine only does what one verb says (docs/warmup.md).
"""

import logging
import threading
import time
from collections.abc import Callable

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.memory import Split
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.warmup import log_lines
from gaudi_runtime.warmup.capturing import capture_graphs
from gaudi_runtime.warmup.compiling import compile_buckets, planned_steps
from gaudi_runtime.warmup.defragmenter import MIN_BLOCKS
from gaudi_runtime.warmup.job import Job
from gaudi_runtime.warmup.journal import Journal
from gaudi_runtime.warmup.pace import Pace
from gaudi_runtime.warmup.progress import Progress
from gaudi_runtime.warmup.sampler import sampler_batch_sizes
from gaudi_runtime.warmup.time_budget import TimeBudget

log = logging.getLogger("gaudi_runtime.warmup")

EAGER_MODES = (ExecutionMode.LAZY, ExecutionMode.EAGER)


def warm_up(
    config: RuntimeConfig,
    engine: Engine,
    plan: BucketPlan,
    split: Split,
    kv_blocks: int,
    board: ReportBoard,
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Warm everything that the configuration asks for. Raises Stopped.

    `stop` is looked at between steps: a compile cannot be interrupted. `split` and `kv_blocks` are what the KV cache
    was allocated with; `clock` returns monotonic seconds.
    """
    captures = engine.captures_graphs and config.warmup.enabled
    folder = config.recipe_cache_dir if config.warmup.enabled else None
    job = Job(
        config=config,
        engine=engine,
        plan=plan,
        board=board,
        stop=stop,
        clock=clock,
        budget=TimeBudget(config.warmup.time_budget_seconds, clock),
        journal=Journal(folder, engine.recipe_key()),
        pace=Pace(config.limits.block_size),
        progress=Progress(board, plan, captures),
    )
    try:
        _stages(job, split, kv_blocks)
    finally:
        job.journal.close()


def _stages(job: Job, split: Split, kv_blocks: int) -> None:
    _announce(job)
    if not job.config.warmup.enabled:
        log.warning("Warm-up is switched off: the first request of every shape waits for its compile.")
        job.board.update(warmup_skipped=True)
        return
    free = job.free()
    cold = compile_buckets(job)
    _warm_sampler(job)
    _warm_defragmenter(job, kv_blocks)
    if job.engine.captures_graphs:
        capture_graphs(job, split.margin, cold)
    log.info("%s", log_lines.finished(job.budget.elapsed(), free - job.free()))


def _announce(job: Job) -> None:
    """Publish the plan, and what the journal knows about the time that it will take."""
    recipes = job.journal.recipes
    for step, seconds in recipes.seconds.items():
        job.pace.measured(step, seconds)
    if job.config.warmup.enabled:
        job.pace.plan(planned_steps(job))
    cached = {phase: sum(recipes.compiled(phase, each) for each in job.plan.of(phase)) for phase in BucketPhase}
    if job.journal.kept:
        log.info("%s", log_lines.recipes(sum(cached.values()), len(job.plan.prompt) + len(job.plan.decode)))
    warnings = (*job.engine.notes(), *((job.journal.warning,) if job.journal.warning else ()))
    job.progress.planned(cached, warnings, job.pace.eta_seconds())


def _warm_sampler(job: Job) -> None:
    if not job.config.warmup.sampler or job.config.engine.execution_mode in EAGER_MODES:
        return
    job.board.update(phase=Phase.SAMPLER)
    sizes = sampler_batch_sizes(job.plan.decode)
    for position, batch_size in enumerate(sizes, start=1):
        job.moved()
        log.info("[Warmup][Sampler][%d/%d] batch_size:%d", position, len(sizes), batch_size)
        job.engine.warm_sampler(batch_size, job.moved)
    job.board.update(sampler_done=True)


def _warm_defragmenter(job: Job, kv_blocks: int) -> None:
    if not job.config.warmup.defragmenter:
        return
    if kv_blocks < MIN_BLOCKS:
        log.warning("The defragmenter is not warmed up: %d KV blocks leave no pair to swap.", kv_blocks)
        return
    job.moved()
    job.board.update(phase=Phase.DEFRAGMENTER)
    job.board.update(defragmenter_done=job.engine.warm_defragmenter(job.moved))
