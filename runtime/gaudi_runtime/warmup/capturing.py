"""Stage 9 of start-up: capture graphs within their memory shares (docs/warmup.md, Capture budget)."""

import logging

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.errors import DeviceOutOfMemory, GraphRefused
from gaudi_runtime.memory import graph_pool
from gaudi_runtime.signals import raise_if_stopped
from gaudi_runtime.warmup import log_lines
from gaudi_runtime.warmup.job import Job
from gaudi_runtime.warmup.pace import StepKind
from gaudi_runtime.warmup.phase_budget import CaptureStep
from gaudi_runtime.warmup.schedule import CaptureBudget

log = logging.getLogger("gaudi_runtime.warmup")


def capture_graphs(job: Job, margin: int, cold: frozenset[tuple[BucketPhase, Bucket]]) -> None:
    """Capture all that fits but the `cold` buckets; `margin` in bytes is what the memory split left unused.

    Raises Stopped.
    """
    job.board.update(phase=Phase.CAPTURING)
    budget = _budget(job, margin, cold)
    while step := budget.next():
        raise_if_stopped(job.stop)
        if job.budget.spent():
            budget.end(job.budget.reason)
        else:
            _capture(job, step, budget)
    for phase in BucketPhase:
        job.progress.capture_over(phase, budget.buckets(phase), budget.graph_bytes(phase))
    job.progress.skipped(budget.skipped())


def _budget(job: Job, margin: int, cold: frozenset[tuple[BucketPhase, Bucket]]) -> CaptureBudget:
    settings, free = job.config.warmup, job.free()
    pool = graph_pool(free, margin, settings.prompt_ratio)
    log.info("%s", log_lines.graph_shares(pool, free, settings.prompt_ratio))
    return CaptureBudget(
        job.plan,
        pool,
        block_size=job.config.limits.block_size,
        prompt_order=settings.prompt_order,
        decode_order=settings.decode_order,
        cold=cold,
    )


def _capture(job: Job, step: CaptureStep, budget: CaptureBudget) -> None:
    started = job.clock()
    forecast = job.pace.forecast((StepKind.CAPTURE, step.phase, step.bucket))
    job.progress.capturing(step.phase, step.bucket, step.position, job.free(), forecast)
    try:
        budget.captured(job.engine.capture(step.phase, step.bucket))
    except DeviceOutOfMemory as error:
        log.warning("Out of device memory at %s bucket %s: %s", step.phase, list(step.bucket), error)
        budget.out_of_memory()
        return
    except GraphRefused as error:
        budget.refused(str(error))
        return
    job.measured((StepKind.CAPTURE, step.phase, step.bucket), job.clock() - started)
    for phase in BucketPhase:
        job.pace.expect(StepKind.CAPTURE, phase, *budget.waiting(phase))
    job.progress.captured(step.phase, budget.graph_bytes(step.phase), job.pace.eta_seconds())
