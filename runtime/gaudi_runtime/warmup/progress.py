"""What a warm-up tells the outside: the report's counts, and the log lines that users grep for."""

import logging
from collections.abc import Sequence
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import MAX_SKIPPED, MAX_WARNINGS, BucketPhase, PhaseProgress, Skipped
from gaudi_runtime.http.report_board import ReportBoard
from gaudi_runtime.warmup import log_lines

log = logging.getLogger("gaudi_runtime.warmup")

_IDLE: dict[str, Any] = {"current": None, "forecast_seconds": None}


class Progress:
    """Publishes every step of one warm-up on the board (docs/warmup.md, Log lines)."""

    def __init__(self, board: ReportBoard, plan: BucketPlan, captures: bool) -> None:
        self._board, self._plan = board, plan
        self._phases = {
            phase: PhaseProgress(planned=len(plan.of(phase)), capture_applies=captures) for phase in BucketPhase
        }
        self._skipped: list[Skipped] = []
        # Nothing is saved before what copying shared recipes took is made up for.
        shared = board.report().shared_recipes
        self._saved = -shared.seconds if shared else 0.0

    def planned(self, cached: dict[BucketPhase, int], warnings: Sequence[str], eta: float | None) -> None:
        """The plan is known, nothing is warm yet. `cached`: buckets whose recipe is at hand; `eta` in seconds."""
        for phase in BucketPhase:
            log.info("%s", log_lines.generated(phase, self._plan.of(phase)))
            self._phases[phase] = self._phases[phase].model_copy(update={"cached": cached[phase]})
        self._board.update(
            buckets_digest=self._plan.digest,
            warnings=tuple(warning[:2048] for warning in (*self._plan.warnings, *warnings)[:MAX_WARNINGS]),
            eta_seconds=eta,
            prompt=self._phases[BucketPhase.PROMPT],
            decode=self._phases[BucketPhase.DECODE],
        )

    def warming(
        self, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int, forecast: float | None
    ) -> None:
        """`bucket` is about to be compiled, which should take `forecast` seconds."""
        log.info("%s", log_lines.warming(phase, bucket, position, self._phases[phase].planned, free_bytes))
        self._change(phase, current=bucket, forecast_seconds=forecast)

    def warmed(self, phase: BucketPhase, eta: float | None, saved: float) -> None:
        """The current bucket is compiled, and its recipe, if it had one, `saved` so many seconds. `eta` in seconds."""
        self._saved += saved
        self._change(phase, eta, warmed=self._phases[phase].warmed + 1, **_IDLE)

    def capturing(
        self, phase: BucketPhase, bucket: Bucket, position: int, free_bytes: int, forecast: float | None
    ) -> None:
        """The graph of `bucket` is about to be captured, which should take `forecast` seconds."""
        log.info("%s", log_lines.capturing(phase, bucket, position, self._phases[phase].planned, free_bytes))
        self._change(phase, current=bucket, forecast_seconds=forecast)

    def captured(self, phase: BucketPhase, graph_bytes: int, eta: float | None) -> None:
        """The current bucket has a graph; `graph_bytes` are those of the whole phase."""
        counted = self._phases[phase].captured + 1
        self._change(phase, eta, captured=counted, graph_bytes=graph_bytes, **_IDLE)

    def skipped(self, buckets: Sequence[Skipped]) -> None:
        """These buckets are left out: cold, or compiled but without a graph."""
        for skipped in buckets[: max(0, MAX_SKIPPED - len(self._skipped))]:
            log.warning("%s bucket %s was left out: %s", skipped.phase, list(skipped.bucket), skipped.reason)
        self._skipped += buckets
        if buckets and len(self._skipped) > MAX_SKIPPED:
            log.warning("%d buckets in all were left out; the first %d are named.", len(self._skipped), MAX_SKIPPED)
        self._board.update(
            skipped=tuple(self._skipped[:MAX_SKIPPED]),
            skipped_total=len(self._skipped),
            **{phase: self._idle(phase) for phase in BucketPhase},
        )

    def capture_over(self, phase: BucketPhase, buckets: Sequence[Bucket], graph_bytes: int) -> None:
        """No more graphs of this phase."""
        log.info("%s", log_lines.captured(phase, buckets, self._phases[phase].planned, graph_bytes))

    def _idle(self, phase: BucketPhase) -> PhaseProgress:
        self._phases[phase] = self._phases[phase].model_copy(update=_IDLE)
        return self._phases[phase]

    def _change(self, phase: BucketPhase, eta: float | None = None, **changes: object) -> None:
        self._phases[phase] = self._phases[phase].model_copy(update=changes)
        compiles = sum(progress.warmed for progress in self._phases.values())
        timing = {} if eta is None else {"eta_seconds": eta}
        saved = max(0.0, self._saved)
        self._board.update(compiles=compiles, recipe_seconds_saved=saved, **{phase: self._phases[phase]}, **timing)
