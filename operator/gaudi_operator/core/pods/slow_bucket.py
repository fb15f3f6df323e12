"""A bucket that takes much longer than its forecast, named long before it counts as a standstill.

See docs/internals/warmup.md.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.view import PodView
from gaudi_runtime.contract.report import BucketPhase, Phase, Shape

FACTOR = 4
"""How many times its forecast a bucket may take before it is named."""

LEAST_SECONDS = 30.0
"""Shorter steps are never named: their times vary by chance."""


@dataclass(frozen=True)
class BucketInWork:
    """What a pod compiles or captures now, since when, and the seconds that were forecast for it."""

    phase: BucketPhase
    bucket: Shape
    since: datetime
    forecast: float

    @property
    def limit(self) -> float:
        """Seconds after which it is slow."""
        return max(LEAST_SECONDS, FACTOR * self.forecast)


def slow_bucket(pod: PodView, deadlines: Deadlines) -> str | None:
    """The sentence that names it; None while all goes at its pace, or no forecast is known."""
    at = _in_work(pod)
    if at is None or pod.report is None or not deadlines.reached(at.since, at.limit):
        return None
    return (
        f"{at.phase.capitalize()} bucket {at.bucket} takes more than {at.limit:.0f} s in phase {pod.report.phase}; "
        f"buckets like it lead to expect {at.forecast:.1f} s (an estimate)."
    )


def _in_work(pod: PodView) -> BucketInWork | None:
    """The bucket in work, if its time was forecast. Nothing moves within one, so its time is that without progress."""
    report = pod.report
    if report is None or pod.received is None or report.phase not in (Phase.COMPILING, Phase.CAPTURING):
        return None
    since = pod.received - timedelta(seconds=report.since_progress_seconds)
    for phase, progress in ((BucketPhase.PROMPT, report.prompt), (BucketPhase.DECODE, report.decode)):
        if progress.current is not None and progress.forecast_seconds is not None:
            return BucketInWork(phase, progress.current, since, progress.forecast_seconds)
    return None
