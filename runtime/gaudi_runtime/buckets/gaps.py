"""Gaps of a plan: regions of batches that no bucket holds, and how they are told (docs/bucketing.md, Coverage)."""

from collections.abc import Iterable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase

MAX_GAPS = 20
"""Most gaps of a phase that are listed; the totals count all of them."""


@dataclass(frozen=True)
class Gap:
    """Every admissible shape from `first` to `last`, both included, has no bucket."""

    first: Bucket
    last: Bucket


@dataclass(frozen=True)
class PhaseCoverage:
    """`shapes` counts the distinct batches that the limits admit, `missing` those without a bucket.

    `gaps` are the first MAX_GAPS of `gap_count`, smallest shape first; `cure` is what would close them, where one thing
    does.
    """

    phase: BucketPhase
    shapes: int
    missing: int
    gap_count: int
    gaps: tuple[Gap, ...]
    cure: str | None = None

    def sentence(self) -> str | None:
        """What has no bucket, with the smallest example and its cure; None when everything has one."""
        if not self.gaps:
            return None
        first, last = self.gaps[0].first, self.gaps[0].last
        count = "1 gap" if self.gap_count == 1 else f"{self.gap_count} gaps, the first"
        return (
            f"{_percent(self.missing, self.shapes)} of the {self.phase} shapes that the limits admit have no bucket: "
            f"{count} from {tuple(first)} to {tuple(last)}{f', {self.cure}' if self.cure else ''}"
        )


def phase_coverage(
    phase: BucketPhase, shapes: int, missing: int, gaps: Iterable[Gap], cure: str | None = None
) -> PhaseCoverage:
    """The coverage of a phase with all its gaps, of which the smallest are kept."""
    ordered = sorted(gaps, key=lambda gap: gap.first)
    return PhaseCoverage(phase, shapes, missing, len(ordered), tuple(ordered[:MAX_GAPS]), cure)


def _percent(part: int, whole: int) -> str:
    if part * 1000 < whole:
        return "under 0.1 %"
    return f"{part * 100 / whole:.1f} %"
