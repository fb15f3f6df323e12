"""The figures in the status: captured graphs, warm-up progress and recompilations."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from gaudi_operator.api.base import MOST_COUNT
from gaudi_operator.api.v1alpha1.status import (
    CapturedPercent,
    ColdShape,
    PodState,
    Recompiles,
    WarmupProgress,
)
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import format_timestamp, parse_timestamp
from gaudi_runtime.contract.report import WarmupReport

ETA_SECONDS = 10
MAX_COLD_SHAPES = 10
_Shape = tuple[str, tuple[int, int, int]]


def pods_for_figures(state: State) -> tuple[PodView, ...]:
    """Return the serving pods of the current revision or, if no pod serves, all its pods. The figures describe them."""
    return state.serving_updated_pods or state.updated_pods


def lowest_captured_percent(rows: Iterable[PodState]) -> CapturedPercent:
    """Return the lowest percentage of captured graphs in `rows` for each phase, or None for a phase without graphs."""
    percents = [row.captured_percent for row in rows]
    return CapturedPercent(
        prompt=min((percent.prompt for percent in percents if percent.prompt is not None), default=None),
        decode=min((percent.decode for percent in percents if percent.decode is not None), default=None),
    )


def recompile_counts(rows: Iterable[PodState], reports: Sequence[WarmupReport]) -> Recompiles:
    """Return the recompilations of the serving pods, with the most frequent cold shapes."""
    batch_counts, compiles = Counter[_Shape](), Counter[_Shape]()
    for cold_shape in (cold_shape for report in reports for cold_shape in report.cold_shapes):
        batch_counts[cold_shape.phase.value, cold_shape.shape] += cold_shape.count
        compiles[cold_shape.phase.value, cold_shape.shape] += cold_shape.compiles
    most_frequent = sorted(batch_counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_COLD_SHAPES]
    return Recompiles(
        since_ready=_capped_sum(row.recompiles_since_ready for row in rows),
        cold_shapes=tuple(
            ColdShape(
                phase=phase, shape=shape, count=_capped_sum([count]), compiles=_capped_sum([compiles[phase, shape]])
            )
            for (phase, shape), count in most_frequent
        ),
    )


def warmup_progress(state: State, rows: Iterable[PodState]) -> WarmupProgress | None:
    """Return the warm-up progress of the slowest pod of the current revision, or None without pods."""
    current_rows = [row for row in rows if row.revision == state.current_name]
    slowest = min(current_rows, key=lambda row: (row.warmup_percent, row.name), default=None)
    if slowest is None:
        return None
    pod = next(pod for pod in state.updated_pods if pod.name == slowest.name)
    return WarmupProgress(percent=slowest.warmup_percent, eta=_eta(pod, state))


def _eta(pod: PodView, state: State) -> str | None:
    """Return the expected end of the warm-up, rounded to 10 s.

    If the end has changed by at most 10 s, the written value stays.
    """
    if pod.report is None or pod.report_received_at is None or pod.report.eta_seconds is None:
        return None
    end = pod.report_received_at + timedelta(seconds=pod.report.eta_seconds)
    previous_eta = state.previous_status.warmup.eta if state.previous_status.warmup else None
    previous_end = parse_timestamp(previous_eta)
    if previous_end and abs((previous_end - end).total_seconds()) <= ETA_SECONDS:
        return previous_eta
    # Round the time. Otherwise each report would change the estimate by a second and cause a status write.
    rounded_timestamp = round(end.timestamp() / ETA_SECONDS) * ETA_SECONDS
    return format_timestamp(datetime.fromtimestamp(rounded_timestamp, UTC))


def _capped_sum(counts: Iterable[int]) -> int:
    """Return the sum, limited to the maximum value of a status field."""
    return min(MOST_COUNT, sum(counts))
