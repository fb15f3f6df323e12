"""A bucket that takes much longer than others like it, named long before it counts as a standstill (docs/warmup.md)."""

from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.core.pods import PodView
from gaudi_runtime.contract.report import BucketPhase, Phase, Shape

FACTOR = 4
"""How many times its forecast a bucket may take before it is named."""

LEAST_SECONDS = 30.0
"""Shorter steps are never named: their times vary by chance."""


@dataclass(frozen=True)
class BucketInWork:
    """What a pod compiles or captures now: for so many seconds already, of those that were forecast."""

    phase: BucketPhase
    bucket: Shape
    seconds: float
    forecast: float

    @property
    def limit(self) -> float:
        """Seconds after which it is slow."""
        return max(LEAST_SECONDS, FACTOR * self.forecast)


def slow_bucket(pod: PodView, now: datetime) -> str | None:
    """The sentence that names it; None while all goes at its pace, or no forecast is known."""
    at = in_work(pod, now)
    if at is None or pod.report is None or at.seconds <= at.limit:
        return None
    return (
        f"{at.phase.capitalize()} bucket {at.bucket} takes more than {at.limit:.0f} s in phase {pod.report.phase}; "
        f"buckets like it lead to expect {at.forecast:.1f} s (an estimate)."
    )


def in_work(pod: PodView, now: datetime) -> BucketInWork | None:
    """The bucket in work, if its time was forecast. Nothing moves within one, so its time is that without progress."""
    report = pod.report
    if report is None or pod.received is None or report.phase not in (Phase.COMPILING, Phase.CAPTURING):
        return None
    seconds = report.since_progress_seconds + max(0.0, (now - pod.received).total_seconds())
    for phase, progress in ((BucketPhase.PROMPT, report.prompt), (BucketPhase.DECODE, report.decode)):
        if progress.current is not None and progress.forecast_seconds is not None:
            return BucketInWork(phase, progress.current, seconds, progress.forecast_seconds)
    return None
