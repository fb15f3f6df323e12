"""Gaps of a plan: regions of batches that no bucket holds, and how they are told (docs/bucketing.md, Coverage)."""

from bisect import insort
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


class Firsts:
    """The smallest shapes of gaps: all are counted, the smallest MAX_GAPS kept."""

    def __init__(self) -> None:
        self.count = 0
        self.smallest: list[Bucket] = []
        self.least_blocks: int | None = None
        """Of all shapes, not only of those that are kept; None before the first."""

    def add(self, first: Bucket) -> None:
        """Count a gap that begins at this shape."""
        self.count += 1
        self.least_blocks = first.num_blocks if self.least_blocks is None else min(self.least_blocks, first.num_blocks)
        insort(self.smallest, first)
        del self.smallest[MAX_GAPS:]


def _percent(part: int, whole: int) -> str:
    if part * 1000 < whole:
        return "under 0.1 %"
    return f"{part * 100 / whole:.1f} %"
