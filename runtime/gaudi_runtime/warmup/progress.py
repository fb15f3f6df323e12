"""What a warm-up tells the outside: the report's counts, and the log lines that users grep for."""

import logging

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import MAX_SKIPPED, BucketPhase, PhaseProgress, Skipped
from gaudi_runtime.report_board import ReportBoard

log = logging.getLogger("gaudi_runtime.warmup")

GIB = 1024**3


class Progress:
    """Publishes every step of one warm-up on the board (docs/warmup.md, Log lines)."""

    def __init__(self, board: ReportBoard, plan: BucketPlan, captures: bool) -> None:
        self._board, self._plan = board, plan
        self._phases = {
            phase: PhaseProgress(planned=len(plan.of(phase)), capture_applies=captures) for phase in BucketPhase
        }
        self._skipped: list[Skipped] = []

    def planned(self) -> None:
        """The plan is known, nothing is warm yet."""
        for phase in BucketPhase:
            buckets = [list(bucket) for bucket in self._plan.of(phase)]
            log.info("Generated %d %s buckets [bs, query, num_blocks]: %s", len(buckets), phase, buckets)
        self._board.update(
            buckets_digest=self._plan.digest,
            warnings=tuple(warning[:2048] for warning in self._plan.warnings[:50]),
            prompt=self._phases[BucketPhase.PROMPT],
            decode=self._phases[BucketPhase.DECODE],
        )

    def warming(self, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int) -> None:
        """`bucket` is about to be compiled."""
        self._log_step(str(phase).capitalize(), bucket, position, self._phases[phase].planned, free_bytes)
        self._change(phase, current=bucket)

    def warmed(self, phase: BucketPhase, eta: float | None) -> None:
        """The current bucket is compiled. `eta` in seconds."""
        self._change(phase, eta, warmed=self._phases[phase].warmed + 1, current=None)

    def capturing(self, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int) -> None:
        """The graph of `bucket` is about to be captured."""
        name = f"Graph/{str(phase).capitalize()}"
        self._log_step(name, bucket, position, self._phases[phase].planned, free_bytes)
        self._change(phase, current=bucket)

    def captured(self, phase: BucketPhase, graph_bytes: int, eta: float | None) -> None:
        """The current bucket has a graph; `graph_bytes` are those of the whole phase."""
        counted = self._phases[phase].captured + 1
        self._change(phase, eta, captured=counted, graph_bytes=graph_bytes, current=None)

    def skipped(self, *buckets: Skipped) -> None:
        """These buckets are served without a graph."""
        self._skipped += buckets
        for skipped in buckets:
            log.warning("%s bucket %s has no graph: %s", skipped.phase, skipped.bucket, skipped.reason)
        self._board.update(
            skipped=tuple(self._skipped[:MAX_SKIPPED]),
            skipped_total=len(self._skipped),
            **{phase: self._idle(phase) for phase in BucketPhase},
        )

    def capture_over(self, phase: BucketPhase, buckets: tuple[Bucket, ...], graph_bytes: int) -> None:
        """No more graphs of this phase. The denominator is the plan, never the captured."""
        planned = self._phases[phase].planned
        log.info(
            "Graph/%s captured:%d (%.1f%%) used_mem:%.2f GiB buckets:%s",
            str(phase).capitalize(),
            len(buckets),
            100 * len(buckets) / planned if planned else 100.0,
            graph_bytes / GIB,
            [list(bucket) for bucket in buckets],
        )

    def _idle(self, phase: BucketPhase) -> PhaseProgress:
        self._phases[phase] = self._phases[phase].model_copy(update={"current": None})
        return self._phases[phase]

    def _change(self, phase: BucketPhase, eta: float | None = None, **changes: object) -> None:
        self._phases[phase] = self._phases[phase].model_copy(update=changes)
        compiles = sum(progress.warmed for progress in self._phases.values())
        timing = {} if eta is None else {"eta_seconds": eta}
        self._board.update(compiles=compiles, **{phase: self._phases[phase]}, **timing)

    def _log_step(self, name: str, bucket: Bucket, position: int, planned: int, free_bytes: int) -> None:
        log.info(
            "[Warmup][%s][%d/%d] batch_size:%d query_len:%d num_blocks:%d free_mem:%.2f GiB",
            name,
            position,
            planned,
            *bucket,
            free_bytes / GIB,
        )
