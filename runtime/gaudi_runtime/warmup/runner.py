"""The warm-up runner, which runs the scheduled steps of a plan on an engine, in one worker thread.

The stages are vision, compile, sampler, defragmenter and capture. The runner controls order, budget, progress and stop;
each call of the engine runs one step (docs/internals/warmup.md).
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import CaptureOrder, ExecutionMode, RuntimeConfig
from gaudi_runtime.contract.preparation import PreparationSkipCause, preparation_of
from gaudi_runtime.contract.report import BucketPhase, Phase, SkippedBucketReport, VisionBucket
from gaudi_runtime.engine_protocol.engine import Engine, SupportsVision
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused, PlanImpossible, ShapeRefused
from gaudi_runtime.memory_split import DeviceMemorySplit, graph_pool
from gaudi_runtime.process.signals import raise_if_stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.units import format_bytes
from gaudi_runtime.warmup.cover_first import cover_first_plan_without_cold
from gaudi_runtime.warmup.estimate import Estimate, EstimateStepKind, Step
from gaudi_runtime.warmup.job import WarmupJob
from gaudi_runtime.warmup.journal import Journal
from gaudi_runtime.warmup.progress import Progress, finished_progress_line, graph_shares_progress_line
from gaudi_runtime.warmup.schedule import (
    MIN_BLOCKS,
    CaptureBudget,
    ScheduledCapture,
    ScheduledCompile,
    TimeBudget,
    schedule_compile_order,
    schedule_compiles,
    schedule_sampler_batch_sizes,
)

log = logging.getLogger("gaudi_runtime.warmup")

EAGER_MODES = (ExecutionMode.LAZY, ExecutionMode.EAGER)
MAX_REASON = 2048

COLD_ROW = (
    "this bucket is not used, because a larger bucket with the same batch size is cold, and lookups of contiguous "
    "blocks need the larger bucket"
)

Cold = frozenset[tuple[BucketPhase, Bucket]]
"""The buckets that were not compiled, and so get no graph either."""


def warm_up(
    config: RuntimeConfig,
    engine: Engine,
    plan: BucketPlan,
    split: DeviceMemorySplit,
    kv_blocks: int,
    board: ReportBoard,
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run the whole warm-up of an engine.

    `stop` is checked between steps, because a compilation cannot be interrupted. `split` and `kv_blocks` describe the
    allocated KV cache. `clock` returns monotonic seconds. Raises Stopped.
    """
    captures_graphs = engine.captures_graphs and config.warmup.enabled
    recipe_folder = config.recipe_cache_dir if config.warmup.enabled else None
    job = WarmupJob(
        config=config,
        engine=engine,
        plan=plan,
        board=board,
        stop=stop,
        clock=clock,
        time_budget=TimeBudget(config.warmup.time_budget_seconds, clock),
        journal=Journal(recipe_folder, engine.recipe_key()),
        estimate=Estimate(config.limits.block_size),
        progress=Progress(board, plan, preparation_of(config.engine.execution_mode, captures=captures_graphs)),
    )
    try:
        _run_stages(job, split, kv_blocks)
    finally:
        job.journal.close()


def _run_stages(job: WarmupJob, split: DeviceMemorySplit, kv_blocks: int) -> None:
    _publish_plan(job)
    if not job.config.warmup.enabled:
        log.warning("Warm-up is disabled, so the first request of every shape waits for a compile.")
        job.board.update(warmup_skipped=True)
        return
    free_before = job.engine.memory().free
    _warm_vision(job)
    settings, limits = job.config.warmup, job.config.limits
    steps = schedule_compiles(job.plan, limits, kv_blocks, settings.prompt_order, settings.decode_order)
    cold = _pad_to_warm(job, _compile_buckets(job, steps))
    _warm_sampler(job)
    _warm_defragmenter(job, kv_blocks)
    if job.engine.captures_graphs:
        _allocate_workspace(job, cold)
        _capture_graphs(job, split.margin, cold, {(step.phase, step.bucket) for step in steps if step.covering})
    log.info("%s", finished_progress_line(job.time_budget.elapsed_seconds(), free_before - job.engine.memory().free))


def _publish_plan(job: WarmupJob) -> None:
    """Publish the plan, and an estimate from the steps in the journal."""
    recipes = job.journal.recipes
    for step, seconds in recipes.seconds.items():
        job.estimate.record_seconds(step, seconds)
    if job.config.warmup.enabled:
        job.estimate.add_steps(_planned_steps(job))
    cached = {
        phase: sum(recipes.has_recipe(phase, bucket) for bucket in job.plan.buckets_of(phase)) for phase in BucketPhase
    }
    if job.journal.is_open:
        planned = len(job.plan.prompt) + len(job.plan.decode)
        log.info("Recipe cache: %d of %d buckets have a recipe from an earlier start", sum(cached.values()), planned)
    warnings = (*job.engine.notes(), *((job.journal.warning,) if job.journal.warning else ()))
    job.progress.publish_plan(cached, warnings, job.estimate.eta_seconds())
    if vision_buckets := _vision_buckets(job):
        job.progress.publish_vision_plan(vision_buckets)


def _planned_steps(job: WarmupJob) -> list[Step]:
    """Return all steps of the plan. Each bucket is compiled or loaded from the recipe cache, and then captured."""
    buckets = [(phase, bucket) for phase in BucketPhase for bucket in job.plan.buckets_of(phase)]
    steps: list[Step] = [(job.journal.recipes.step_kind(*key), *key) for key in buckets]
    return steps + [(EstimateStepKind.CAPTURE, *key) for key in buckets] if job.engine.captures_graphs else steps


def _vision_buckets(job: WarmupJob) -> tuple[VisionBucket, ...]:
    return job.engine.vision_buckets() if isinstance(job.engine, SupportsVision) else ()


def _warm_vision(job: WarmupJob) -> None:
    """Run the vision tower with each of its buckets.

    This stage is the first one, because the vision tower keeps memory that graphs then cannot use.
    """
    buckets = _vision_buckets(job)
    if not buckets:
        return
    job.board.update(phase=Phase.COMPILING)
    warmed_buckets: list[VisionBucket] = []
    for position, bucket in enumerate(buckets, start=1):
        raise_if_stopped(job.stop)
        if job.time_budget.is_spent():
            job.progress.publish_vision_skipped(buckets[position - 1 :], job.time_budget.reason)
            return
        free_bytes = job.engine.memory().free
        job.progress.publish_vision_running(bucket, position, free_bytes)
        try:
            job.progress.publish_vision_warm(cast("SupportsVision", job.engine).warm_vision(bucket))
            warmed_buckets.append(bucket)
        except ShapeRefused as error:
            job.progress.publish_vision_skipped([bucket], str(error))
        except DeviceOutOfMemory as error:
            # The remaining buckets are skipped as well: most buckets are ordered from smallest to largest, so the
            # remaining buckets would also fail.
            job.progress.publish_vision_skipped(buckets[position - 1 :], f"the device ran out of memory: {error}")
            return
    if job.config.engine.execution_mode is ExecutionMode.TORCH_COMPILE:
        _repeat_vision_runs(job, warmed_buckets)


def _repeat_vision_runs(job: WarmupJob, buckets: Sequence[VisionBucket]) -> None:
    """Run the vision tower a second time with each of these buckets.

    torch.compile first generates code for the sizes of the first bucket only, and then code for all sizes. Requests run
    the code for all sizes, for which the bridge does not yet have a recipe in the sizes of the first bucket.
    """
    for bucket in buckets:
        job.record_progress()
        try:
            cast("SupportsVision", job.engine).warm_vision(bucket)
        except (ShapeRefused, DeviceOutOfMemory) as error:
            log.warning(
                "The second run of vision bucket %s failed, so a request may wait for a compile: %s", bucket, error
            )
            return


def _compile_buckets(job: WarmupJob, steps: Sequence[ScheduledCompile]) -> Cold:
    """Compile the buckets in this order, and return the buckets that stayed cold."""
    job.board.update(phase=Phase.COMPILING)
    cold_buckets: list[SkippedBucketReport] = []
    over_budget: list[SkippedBucketReport] = []
    capture_totals = dict.fromkeys(BucketPhase, (0, 0.0))
    for step in steps:
        raise_if_stopped(job.stop)
        # The budget is checked between steps, because a compilation cannot be interrupted.
        if not step.covering and job.time_budget.is_spent(_reserved_seconds(job, capture_totals)):
            over_budget.append(
                _make_skipped(step.phase, step.bucket, job.time_budget.reason, PreparationSkipCause.LIMIT)
            )
        elif skipped := _compile(job, step.phase, step.bucket, step.position):
            cold_buckets.append(skipped)
            job.progress.publish_skipped([skipped])
        else:
            count, total_weight = capture_totals[step.phase]
            weight = bucket_weight(step.phase, step.bucket, job.config.limits.block_size)
            capture_totals[step.phase] = (count + 1, total_weight + weight)
    if over_budget:
        # All buckets are published in one update: there may be thousands of buckets, and each update wakes every long
        # poll.
        job.progress.publish_skipped(over_budget)
    return _drop_cold_steps(job, [*cold_buckets, *over_budget])


def _reserved_seconds(job: WarmupJob, capture_totals: Mapping[BucketPhase, tuple[int, float]]) -> float:
    """Return the seconds of the time budget that are reserved for captures; 0 unless the order is CoverFirst."""
    # Without this reserve, the budget could end during compilation. Then no bucket would get a graph.
    orders = (job.config.warmup.prompt_order, job.config.warmup.decode_order)
    if not job.engine.captures_graphs or CaptureOrder.COVER_FIRST not in orders:
        return 0.0
    return job.estimate.seconds_of(EstimateStepKind.CAPTURE, capture_totals)


def _compile(job: WarmupJob, phase: BucketPhase, bucket: Bucket, position: int) -> SkippedBucketReport | None:
    """Compile one bucket. Return the reason if it stays cold, otherwise None."""
    step = (job.journal.recipes.step_kind(phase, bucket), phase, bucket)
    free_bytes, forecast = job.engine.memory().free, job.estimate.forecast(step)
    job.progress.publish_compiling(phase, bucket, position, free_bytes, forecast)
    started = job.clock()
    try:
        job.engine.warm(phase, bucket)
    except DeviceOutOfMemory as error:
        # The next bucket is still tried, because it may be smaller and fit into the memory.
        return _make_skipped(phase, bucket, f"the device ran out of memory while this bucket was compiled: {error}")
    except ShapeRefused as error:
        return _make_skipped(phase, bucket, str(error))
    seconds = job.clock() - started
    job.estimate.remove_steps([step])
    job.record_seconds(step, seconds)
    job.progress.publish_warm(
        phase, bucket, job.estimate.eta_seconds(), job.journal.recipes.saved_seconds(step, seconds)
    )
    return None


def _make_skipped(
    phase: BucketPhase, bucket: Bucket, reason: str, cause: PreparationSkipCause = PreparationSkipCause.FAILURE
) -> SkippedBucketReport:
    return SkippedBucketReport(phase=phase, bucket=bucket, reason=reason[:MAX_REASON], cause=cause)


def _drop_cold_steps(job: WarmupJob, cold: list[SkippedBucketReport]) -> Cold:
    """Remove the compilations of cold buckets from the estimate, and return these buckets."""
    buckets = frozenset((skipped.phase, Bucket(*skipped.bucket)) for skipped in cold)
    # Only the compilations are removed. `_capture` counts the remaining captures after each graph.
    job.estimate.remove_steps((job.journal.recipes.step_kind(*bucket), *bucket) for bucket in buckets)
    return buckets


def _pad_to_warm(job: WarmupJob, cold_buckets: Cold) -> Cold:
    """Pad requests to warm buckets if some buckets stayed cold. Return all buckets that get no graph."""
    if not cold_buckets:
        return cold_buckets
    warm = cover_first_plan_without_cold(job.plan, job.config.limits, cold_buckets)
    job.engine.use_warm_buckets(warm)
    planned, used = (
        [(phase, bucket) for phase in BucketPhase for bucket in plan.buckets_of(phase)] for plan in (job.plan, warm)
    )
    unused = sorted(set(planned) - cold_buckets - set(used))
    job.progress.publish_skipped([_make_skipped(*key, COLD_ROW) for key in unused])
    message = "Requests are padded to larger warm buckets."
    log.warning("%d of %d buckets stayed cold. %s", len(cold_buckets), len(planned), message)
    return cold_buckets.union(unused)


def _warm_sampler(job: WarmupJob) -> None:
    if job.config.engine.execution_mode in EAGER_MODES:
        return
    job.board.update(phase=Phase.SAMPLER)
    sizes = schedule_sampler_batch_sizes(job.plan.decode)
    for position, batch_size in enumerate(sizes, start=1):
        job.record_progress()
        log.info("[Warmup][Sampler][%d/%d] batch_size:%d", position, len(sizes), batch_size)
        job.engine.warm_sampler(batch_size, job.record_progress)
    job.board.update(sampler_done=True)


def _warm_defragmenter(job: WarmupJob, kv_blocks: int) -> None:
    if kv_blocks < MIN_BLOCKS:
        log.warning("The defragmenter is not warmed up, because %d KV blocks contain no pair to swap.", kv_blocks)
        return
    job.record_progress()
    job.board.update(phase=Phase.DEFRAGMENTER)
    job.board.update(defragmenter_done=job.engine.warm_defragmenter(job.record_progress))


def _allocate_workspace(job: WarmupJob, cold: Cold) -> None:
    """Execute the largest warm bucket of each phase, so that its workspace is allocated before the first capture.

    Raises PlanImpossible if the workspace does not fit.
    """
    # The bridge allocates the workspace at the first execution. If that was a capture, its bytes would count as bytes
    # of a graph, and the budget would leave out graphs that fit.
    job.board.update(phase=Phase.CAPTURING)
    if any(item.cause is PreparationSkipCause.FAILURE for item in job.board.report().skipped):
        return  # after a compile without memory, workers on a card run no further batch
    free_before = job.engine.memory().free
    for phase in BucketPhase:
        warm = [bucket for bucket in schedule_compile_order(job.plan, phase) if (phase, bucket) not in cold]
        for bucket in warm[:1]:
            job.record_progress()
            try:
                job.engine.execute(phase, bucket)
            except DeviceOutOfMemory as error:
                raise PlanImpossible(
                    f"The workspace of {phase} bucket {tuple(bucket)} does not fit into the device memory: {error}. "
                    "Lower engine.deviceMemoryUtilizationPercent, or plan smaller buckets."
                ) from error
    workspace_bytes = max(0, free_before - job.engine.memory().free)
    log.info("The workspace of the largest buckets takes %s of device memory", format_bytes(workspace_bytes))
    job.board.update(workspace_bytes=workspace_bytes)


def _capture_graphs(job: WarmupJob, margin: int, cold: Cold, covering: Collection[tuple[BucketPhase, Bucket]]) -> None:
    """Capture all graphs that fit, except the graphs of `cold` buckets.

    `margin` is the memory in bytes that the split left unused. After the time budget is spent, only the `covering`
    buckets are captured.
    """
    settings, free_bytes = job.config.warmup, job.engine.memory().free
    pool = graph_pool(free_bytes, margin, settings.prompt_ratio)
    log.info("%s", graph_shares_progress_line(pool, free_bytes, settings.prompt_ratio))
    budget = CaptureBudget(
        job.plan,
        pool,
        block_size=job.config.limits.block_size,
        prompt_order=settings.prompt_order,
        decode_order=settings.decode_order,
        cold=cold,
    )
    while step := budget.next_step():
        raise_if_stopped(job.stop)
        if job.time_budget.is_spent() and (step.phase, step.bucket) not in covering:
            budget.end(job.time_budget.reason, except_buckets=covering)
        else:
            _capture(job, step, budget)
    for phase in BucketPhase:
        phase_budget = budget.phase_budget(phase)
        job.progress.publish_capture_end(phase, phase_budget.captured, phase_budget.graph_bytes)
    job.progress.publish_skipped(budget.skipped_buckets())


def _capture(job: WarmupJob, step: ScheduledCapture, budget: CaptureBudget) -> None:
    """Capture one graph.

    If the graph does not fit, its phase ends. If the engine makes no graph of the shape, the phase continues.
    """
    phase_budget, started = budget.phase_budget(step.phase), job.clock()
    timed_step = (EstimateStepKind.CAPTURE, step.phase, step.bucket)
    free_bytes, forecast = job.engine.memory().free, job.estimate.forecast(timed_step)
    job.progress.publish_capturing(step.phase, step.bucket, step.position, free_bytes, forecast)
    try:
        phase_budget.record_captured(job.engine.capture(step.phase, step.bucket))
    except DeviceOutOfMemory as error:
        log.warning("Out of device memory at %s bucket %s: %s", step.phase, list(step.bucket), error)
        phase_budget.record_out_of_memory(str(error))
        return
    except GraphRefused as error:
        phase_budget.record_refused(str(error), PreparationSkipCause.LIMIT)
        return
    except ShapeRefused as error:
        phase_budget.record_refused(str(error), PreparationSkipCause.FAILURE)
        return
    job.record_seconds(timed_step, job.clock() - started)
    for remaining in map(budget.phase_budget, BucketPhase):
        # `remove_steps([step])` would give a wrong estimate, because the budget may leave out some buckets and retry
        # others.
        job.estimate.set_remaining(
            EstimateStepKind.CAPTURE, remaining.phase, remaining.waiting_count, remaining.waiting_weight
        )
    job.progress.publish_captured(step.phase, step.bucket, phase_budget.graph_bytes, job.estimate.eta_seconds())
