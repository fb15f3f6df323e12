"""The interface of the spans that a warm-up records for traces, and an implementation that records no spans."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from gaudi_runtime.contract.report import SkippedBucket, VisionBucket
from gaudi_runtime.warmup.estimate import Step

Figures = dict[str, int]
"""The measurements of a step. Each key is the last part of the attribute's name."""


class WarmupSpans(Protocol):
    """A recorder of the spans of one warm-up. Any thread may call its methods."""

    def step_span(self, step: Step, forecast: float | None, free_bytes: int) -> AbstractContextManager[Figures]:
        """Record the block as a span that compiles or captures a bucket, with a forecast of `forecast` seconds.

        The span contains the figures that the block sets, and the error that the block raises.
        """

    def vision_span(self, bucket: VisionBucket, free_bytes: int) -> AbstractContextManager[Figures]:
        """Record the block as a span that runs the vision tower."""

    def record_skipped(self, skipped: Sequence[SkippedBucket]) -> None:
        """Record that these buckets stay cold or have no graph."""


class NoSpans:
    """An implementation of WarmupSpans that records no spans."""

    def step_span(self, step: Step, forecast: float | None, free_bytes: int) -> AbstractContextManager[Figures]:
        """Return a context that discards the figures."""
        return nullcontext({})

    def vision_span(self, bucket: VisionBucket, free_bytes: int) -> AbstractContextManager[Figures]:
        """Return a context that discards the figures."""
        return nullcontext({})

    def record_skipped(self, skipped: Sequence[SkippedBucket]) -> None:
        """Do nothing."""


NO_SPANS: WarmupSpans = NoSpans()
