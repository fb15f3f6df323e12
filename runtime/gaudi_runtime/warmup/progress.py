"""The progress of a warm-up: formats its log lines, and publishes every step on the report board.

The log lines have the form of the public servers' logs, for which users search.
"""

import logging
from collections.abc import Sequence
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucket_table import BucketState
from gaudi_runtime.contract.preparation import Preparation, PreparationSkipCause
from gaudi_runtime.contract.report import (
    MAX_NAMED_VISION,
    MAX_SKIPPED,
    MAX_WARNINGS,
    BucketPhase,
    PhaseProgressReport,
    SkippedBucketReport,
    SkippedVisionBucketReport,
    VisionBucket,
    VisionProgressReport,
)
from gaudi_runtime.memory_split import DeviceMemorySplit, GraphPool
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.units import format_bytes

log = logging.getLogger("gaudi_runtime.warmup")

_IDLE: dict[str, Any] = {"current": None, "forecast_seconds": None}


def memory_split_progress_line(split: DeviceMemorySplit, kv_blocks: int, utilization: float, graph_share: float) -> str:
    """Format the progress log line about the memory split after the profile run."""
    return (
        f"Free device memory: {format_bytes(split.free)}, "
        f"{format_bytes(split.usable)} usable (deviceMemoryUtilization={utilization:g}), "
        f"{format_bytes(split.graphs)} reserved for graphs (graphMemoryShare={graph_share:g}), "
        f"{format_bytes(split.kv_cache)} reserved for KV cache: {kv_blocks} blocks"
    )


def step_progress_line(stage: str, bucket: Bucket, position: int, planned: int, free_bytes: int) -> str:
    """Format the progress log line about the next bucket to compile or capture."""
    return (
        f"[Warmup][{stage}][{position}/{planned}] batch_size:{bucket.batch_size} query_len:{bucket.query_len} "
        f"num_blocks:{bucket.num_blocks} free_mem:{format_bytes(free_bytes)}"
    )


def vision_progress_line(bucket: VisionBucket, position: int, planned: int, free_bytes: int) -> str:
    """Format the progress log line about the next vision bucket to run."""
    return (
        f"[Warmup][Vision][{position}/{planned}] modality:{bucket.modality} width:{bucket.width} "
        f"height:{bucket.height} items:{bucket.items} free_mem:{format_bytes(free_bytes)}"
    )


def graph_shares_progress_line(pool: GraphPool, free_bytes: int, prompt_ratio: float) -> str:
    """Format the progress log line about the memory for graphs."""
    return (
        f"Using {format_bytes(pool.total_bytes)}/{format_bytes(free_bytes)} of free device memory for graphs, "
        f"{format_bytes(pool.prompt_bytes)} for prompt and "
        f"{format_bytes(pool.decode_bytes)} for decode (promptRatio={prompt_ratio:g})"
    )


def captured_progress_line(
    phase: BucketPhase, buckets: Sequence[Bucket], progress: PhaseProgressReport, graph_bytes: int
) -> str:
    """Format the progress log line about the captured or executed buckets of a phase."""
    # The percentage refers to the planned graphs. It is rounded down, so that 100.0 appears only if all graphs are
    # captured.
    share = len(buckets) * 1000 // progress.planned / 10 if progress.planned else 100.0
    _, outcome = progress.preparation.words
    return (
        f"Graph/{str(phase).capitalize()} {outcome}:{len(buckets)} ({share:.1f}%) "
        f"used_mem:{format_bytes(graph_bytes)} buckets:{[list(bucket) for bucket in sorted(buckets)]}"
    )


def finished_progress_line(seconds: float, graph_bytes: int) -> str:
    """Format the log line of a finished warm-up. `graph_bytes` is the device memory of its graphs, in bytes."""
    return f"Warmup finished in {seconds:.0f} secs, allocated {format_bytes(graph_bytes)} of device memory"


class Progress:
    """The publisher of every step of one warm-up, on the report board and in the log."""

    def __init__(self, board: ReportBoard, plan: BucketPlan, preparation: Preparation) -> None:
        self._board, self._plan = board, plan
        self._captured_state = BucketState.EXECUTED if preparation is Preparation.EXECUTION else BucketState.CAPTURED
        self._phases = {
            phase: PhaseProgressReport(planned=len(plan.buckets_of(phase)), preparation=preparation)
            for phase in BucketPhase
        }
        self._vision = VisionProgressReport()
        self._skipped: list[SkippedBucketReport] = []
        # The time to copy the recipes is subtracted from the time that the recipes save.
        shared_recipes = board.report().shared_recipes
        self._saved_seconds = -shared_recipes.seconds if shared_recipes else 0.0

    def publish_plan(self, cached: dict[BucketPhase, int], warnings: Sequence[str], eta: float | None) -> None:
        """Publish the plan. `cached` counts buckets with a cached recipe; `eta` is in seconds."""
        self._board.buckets.set_plan(self._plan)
        for phase in BucketPhase:
            buckets = [list(bucket) for bucket in self._plan.buckets_of(phase)]
            log.info("Generated %d %s buckets [bs, query, num_blocks]: %s", len(buckets), phase, buckets)
            self._phases[phase] = self._phases[phase].model_copy(update={"cached": cached[phase]})
        self._board.update(
            buckets_digest=self._plan.digest,
            warnings=tuple(warning[:2048] for warning in (*self._plan.warnings, *warnings)[:MAX_WARNINGS]),
            eta_seconds=eta,
            prompt=self._phases[BucketPhase.PROMPT],
            decode=self._phases[BucketPhase.DECODE],
        )

    def publish_compiling(
        self, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int, forecast: float | None
    ) -> None:
        """Publish that compilation of `bucket` begins, with a forecast of `forecast` seconds."""
        self._board.buckets.set_state(phase, bucket, BucketState.COMPILING)
        self._begin_step(str(phase).capitalize(), phase, bucket, position, free_bytes, forecast)

    def publish_warm(self, phase: BucketPhase, bucket: Bucket, eta: float | None, saved_seconds: float) -> None:
        """Publish that `bucket` is compiled. A cached recipe saved `saved_seconds` seconds. `eta` is in seconds."""
        self._saved_seconds += saved_seconds
        self._board.buckets.set_state(phase, bucket, BucketState.WARM)
        self._change_phase(phase, eta, warmed=self._phases[phase].warmed + 1, **_IDLE)

    def publish_capturing(
        self, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int, forecast: float | None
    ) -> None:
        """Publish that capture of the graph of `bucket` begins, with a forecast of `forecast` seconds."""
        self._board.buckets.set_state(phase, bucket, BucketState.CAPTURING)
        self._begin_step(f"Graph/{str(phase).capitalize()}", phase, bucket, position, free_bytes, forecast)

    def publish_captured(self, phase: BucketPhase, bucket: Bucket, graph_bytes: int, eta: float | None) -> None:
        """Publish that `bucket` is captured or executed. `graph_bytes` is the total of the phase."""
        self._board.buckets.set_state(phase, bucket, self._captured_state)
        captured_count = self._phases[phase].captured + 1
        self._change_phase(phase, eta, captured=captured_count, graph_bytes=graph_bytes, **_IDLE)

    def publish_skipped(self, buckets: Sequence[SkippedBucketReport]) -> None:
        """Publish that these buckets are left out. They are cold, or compiled without a graph."""
        self._board.buckets.record_skipped(buckets)
        for skipped in buckets[: max(0, MAX_SKIPPED - len(self._skipped))]:
            log.warning("%s bucket %s was left out: %s", skipped.phase, list(skipped.bucket), skipped.reason)
        self._skipped += buckets
        for phase, progress in self._phases.items():
            self._phases[phase] = progress.model_copy(
                update={**_IDLE, **_left_out(progress, [item for item in buckets if item.phase is phase])}
            )
        if buckets and len(self._skipped) > MAX_SKIPPED:
            log.warning("%d buckets were left out. Only the first %d are logged.", len(self._skipped), MAX_SKIPPED)
        self._board.update(
            skipped=tuple(self._skipped[:MAX_SKIPPED]),
            skipped_total=len(self._skipped),
            **self._phases,
        )

    def publish_capture_end(self, phase: BucketPhase, buckets: Sequence[Bucket], graph_bytes: int) -> None:
        """Publish that the capture of a phase has ended."""
        log.info("%s", captured_progress_line(phase, buckets, self._phases[phase], graph_bytes))

    def publish_vision_plan(self, buckets: Sequence[VisionBucket]) -> None:
        """Publish the planned buckets of the vision tower."""
        log.info("Generated %d vision buckets [modality WxHxitems]: %s", len(buckets), list(map(str, buckets)))
        self._change_vision(planned=len(buckets))

    def publish_vision_running(self, bucket: VisionBucket, position: int, free_bytes: int) -> None:
        """Publish that the run of the vision tower with this bucket begins."""
        log.info("%s", vision_progress_line(bucket, position, self._vision.planned, free_bytes))
        self._change_vision(current=bucket)

    def publish_vision_warm(self, device_bytes: int) -> None:
        """Publish that the run with the current vision bucket has ended and used `device_bytes` of memory."""
        vision = self._vision
        self._change_vision(warmed=vision.warmed + 1, device_bytes=vision.device_bytes + device_bytes, current=None)

    def publish_vision_skipped(self, buckets: Sequence[VisionBucket], reason: str) -> None:
        """Publish that these vision buckets stay cold."""
        for bucket in buckets[:MAX_NAMED_VISION]:
            log.warning("Vision bucket %s was left out: %s", bucket, reason)
        skipped = (SkippedVisionBucketReport(bucket=bucket, reason=reason[:512]) for bucket in buckets)
        self._change_vision(skipped=(*self._vision.skipped, *skipped)[:MAX_NAMED_VISION], current=None)

    def _change_vision(self, **changes: object) -> None:
        self._vision = self._vision.model_copy(update=changes)
        self._board.update(vision=self._vision)

    def _begin_step(
        self, stage: str, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int, forecast: float | None
    ) -> None:
        log.info("%s", step_progress_line(stage, bucket, position, self._phases[phase].planned, free_bytes))
        self._change_phase(phase, current=bucket, forecast_seconds=forecast)

    def _change_phase(self, phase: BucketPhase, eta: float | None = None, **changes: object) -> None:
        self._phases[phase] = self._phases[phase].model_copy(update=changes)
        compiles = sum(progress.warmed for progress in self._phases.values())
        timing = {} if eta is None else {"eta_seconds": eta}
        saved = max(0.0, self._saved_seconds)
        self._board.update(compiles=compiles, recipe_seconds_saved=saved, **{phase: self._phases[phase]}, **timing)


def _left_out(progress: PhaseProgressReport, skipped: Sequence[SkippedBucketReport]) -> dict[str, int]:
    """Return the counts and bytes of a phase after these buckets were skipped by a limit or for memory."""
    for_memory = [item.graph_bytes for item in skipped if item.cause is PreparationSkipCause.MEMORY]
    return {
        "left_out_by_limit": progress.left_out_by_limit
        + sum(item.cause is PreparationSkipCause.LIMIT for item in skipped),
        "left_out_for_memory": progress.left_out_for_memory + len(for_memory),
        "left_out_bytes": progress.left_out_bytes + sum(for_memory),
    }
