"""Stage 6 of start-up: compile every prompt bucket, then every decode bucket, each largest first."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase, Phase, Skipped
from gaudi_runtime.errors import DeviceOutOfMemory
from gaudi_runtime.signals import raise_if_stopped
from gaudi_runtime.warmup.job import Job, left_out
from gaudi_runtime.warmup.order import compile_order
from gaudi_runtime.warmup.pace import Step, StepKind


def compile_buckets(job: Job) -> frozenset[tuple[BucketPhase, Bucket]]:
    """Compile the plan; the buckets that stayed cold. Raises Stopped.

    A bucket that does not fit the device is left out and the next one tried; once the time budget is spent all that
    are left are left out.
    """
    job.board.update(phase=Phase.COMPILING)
    cold: list[Skipped] = []
    late: list[Skipped] = []
    for phase in BucketPhase:
        for position, bucket in enumerate(compile_order(job.plan, phase), start=1):
            raise_if_stopped(job.stop)
            if job.budget.spent():
                late.append(left_out(phase, bucket, job.budget.reason))
            elif skipped := _compile(job, phase, bucket, position):
                cold.append(skipped)
                job.progress.skipped([skipped])
    if late:
        job.progress.skipped(late)
    return _give_up(job, [*cold, *late])


def _compile(job: Job, phase: BucketPhase, bucket: Bucket, position: int) -> Skipped | None:
    """Compile one bucket, or say why it stays cold."""
    step = (job.journal.recipes.kind(phase, bucket), phase, bucket)
    job.progress.warming(phase, bucket, position, job.free(), job.pace.forecast(step))
    started = job.clock()
    try:
        job.engine.warm(phase, bucket)
    except DeviceOutOfMemory as error:
        return left_out(phase, bucket, f"the device ran out of memory while it was compiled: {error}")
    seconds = job.clock() - started
    job.pace.over([step])
    job.measured(step, seconds)
    job.progress.warmed(phase, job.pace.eta_seconds(), job.journal.recipes.saved(step, seconds))
    return None


def _give_up(job: Job, cold: list[Skipped]) -> frozenset[tuple[BucketPhase, Bucket]]:
    """No step of these buckets will come any more."""
    buckets = frozenset((skipped.phase, Bucket(*skipped.bucket)) for skipped in cold)
    job.pace.over((job.journal.recipes.kind(*bucket), *bucket) for bucket in buckets)
    if job.engine.captures_graphs:
        job.pace.over((StepKind.CAPTURE, *bucket) for bucket in buckets)
    return buckets


def planned_steps(job: Job) -> list[Step]:
    """All steps of the plan: each bucket compiled, or loaded from the recipe cache, and then captured."""
    buckets = [(phase, bucket) for phase in BucketPhase for bucket in job.plan.of(phase)]
    steps: list[Step] = [(job.journal.recipes.kind(*each), *each) for each in buckets]
    return steps + [(StepKind.CAPTURE, *each) for each in buckets] if job.engine.captures_graphs else steps
