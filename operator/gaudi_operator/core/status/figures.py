"""The figures in the status: captured graphs, warm-up progress, memory and recompilations."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from gaudi_operator.api.base import MOST_COUNT
from gaudi_operator.api.v1alpha1.status import (
    BucketCounts,
    Buckets,
    CapturedPercent,
    ColdShape,
    MemorySplit,
    PodState,
    Recompiles,
    VisionCounts,
    WarmupProgress,
)
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import parse_timestamp, timestamp
from gaudi_runtime.contract.report import PhaseProgress, WarmupReport

ETA_SECONDS = 10
MAX_COLD_SHAPES = 10
_Shape = tuple[str, tuple[int, int, int]]


def pods_of_figures(state: State) -> tuple[PodView, ...]:
    """Return the serving pods of the current revision or, if no pod serves, all its pods. The figures describe them."""
    return state.serving_updated or state.updated


def least_captured(rows: Iterable[PodState]) -> CapturedPercent:
    """Return the lowest percentage of captured graphs in `rows` for each phase, or None for a phase without graphs."""
    found = [row.captured_percent for row in rows]
    return CapturedPercent(
        prompt=min((each.prompt for each in found if each.prompt is not None), default=None),
        decode=min((each.decode for each in found if each.decode is not None), default=None),
    )


def bucket_counts(reports: Sequence[WarmupReport]) -> Buckets | None:
    """Return the bucket counts of the pod with the fewest captured and then the fewest warmed buckets."""
    worst = min(reports, key=lambda report: (_sum(report, "captured"), _sum(report, "warmed")), default=None)
    if worst is None:
        return None
    vision = VisionCounts(planned=worst.vision.planned, warmed=worst.vision.warmed) if worst.vision else None
    return Buckets(prompt=_counts(worst.prompt), decode=_counts(worst.decode), vision=vision)


def memory_split(reports: Sequence[WarmupReport]) -> MemorySplit | None:
    """Return the memory split of the pod with the fewest KV blocks."""
    splits = [report.memory for report in reports if report.memory]
    least = min(splits, key=lambda split: split.kv_blocks, default=None)
    if least is None:
        return None
    return MemorySplit(
        usable_bytes=least.usable,
        graph_bytes=least.graphs,
        kv_cache_bytes=least.kv_cache,
        kv_blocks=least.kv_blocks,
    )


def recompile_counts(rows: Iterable[PodState], reports: Sequence[WarmupReport]) -> Recompiles:
    """Return the recompilations of the serving pods, with the most frequent cold shapes."""
    counts, compiles = Counter[_Shape](), Counter[_Shape]()
    for cold in (cold for report in reports for cold in report.cold_shapes):
        counts[cold.phase.value, cold.shape] += cold.count
        compiles[cold.phase.value, cold.shape] += cold.compiles
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_COLD_SHAPES]
    return Recompiles(
        since_ready=_count(row.recompiles_since_ready for row in rows),
        recent=_count(report.recent_recompiles for report in reports),
        prompt=_count(report.served.prompt.recompiles for report in reports),
        decode=_count(report.served.decode.recompiles for report in reports),
        vision=_count(report.served.vision.recompiles for report in reports if report.served.vision),
        cold_shapes=tuple(
            ColdShape(phase=phase, shape=shape, count=_count([count]), compiles=_count([compiles[phase, shape]]))
            for (phase, shape), count in most
        ),
    )


def warmup_progress(state: State, rows: Iterable[PodState]) -> WarmupProgress | None:
    """Return the warm-up progress of the slowest pod of the current revision, or None without pods."""
    mine = [row for row in rows if row.revision == state.current]
    least = min(mine, key=lambda row: (row.warmup_percent, row.name), default=None)
    if least is None:
        return None
    pod = next(each for each in state.updated if each.name == least.name)
    return WarmupProgress(percent=least.warmup_percent, phase=least.phase, eta=_eta(pod, state))


def _eta(pod: PodView, state: State) -> str | None:
    """Return the expected end of the warm-up, rounded to 10 s.

    If the end has changed by at most 10 s, the written value stays.
    """
    if pod.report is None or pod.received is None or pod.report.eta_seconds is None:
        return None
    end = pod.received + timedelta(seconds=pod.report.eta_seconds)
    written = state.before.warmup.eta if state.before.warmup else None
    moment = parse_timestamp(written)
    if moment and abs((moment - end).total_seconds()) <= ETA_SECONDS:
        return written
    # Round the time. Otherwise each report would change the estimate by a second and cause a status write.
    rounded = round(end.timestamp() / ETA_SECONDS) * ETA_SECONDS
    return timestamp(datetime.fromtimestamp(rounded, UTC))


def _count(parts: Iterable[int]) -> int:
    """Return the sum, limited to the maximum value of a status field."""
    return min(MOST_COUNT, sum(parts))


def _counts(progress: PhaseProgress) -> BucketCounts:
    return BucketCounts(planned=progress.planned, warmed=progress.warmed, captured=progress.captured)


def _sum(report: WarmupReport, count: str) -> int:
    return int(getattr(report.prompt, count) + getattr(report.decode, count))
