"""The interface of the spans that a warm-up records for traces, and an implementation that records none."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from gaudi_runtime.contract.report import Skipped, VisionBucket
from gaudi_runtime.warmup.estimate import Step

Figures = dict[str, int]
"""The measurements of a step. Each key is the last part of the attribute's name."""


class WarmupSpans(Protocol):
    """Records the spans of one warm-up; its methods may be called from any thread."""

    def step(self, step: Step, forecast: float | None, free_bytes: int) -> AbstractContextManager[Figures]:
        """Record that the block compiles or captures a bucket, which should take `forecast` seconds.

        The span has the figures that the block sets, and the error that the block raises.
        """

    def vision_step(self, bucket: VisionBucket, free_bytes: int) -> AbstractContextManager[Figures]:
        """Record that the block runs the vision tower."""

    def left_out(self, skipped: Sequence[Skipped]) -> None:
        """Record that these buckets stay cold or without a graph."""


class NoSpans:
    """An implementation of WarmupSpans that records nothing."""

    def step(self, step: Step, forecast: float | None, free_bytes: int) -> AbstractContextManager[Figures]:
        """Return a context in which figures are dropped."""
        return nullcontext({})

    def vision_step(self, bucket: VisionBucket, free_bytes: int) -> AbstractContextManager[Figures]:
        """Return a context in which figures are dropped."""
        return nullcontext({})

    def left_out(self, skipped: Sequence[Skipped]) -> None:
        """Record nothing."""


NO_SPANS: WarmupSpans = NoSpans()
