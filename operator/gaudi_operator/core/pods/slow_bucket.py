"""The detection of slow buckets, which take much longer than their forecast.

A slow bucket is reported long before the stall timeout. See docs/internals/warmup.md.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.contract.report_fields import Shape

SLOW_FACTOR = 4
"""The multiple of its forecast after which a bucket is slow."""

LEAST_SECONDS = 30.0
"""The minimum seconds of a slow bucket, because shorter steps vary by chance."""


@dataclass(frozen=True)
class _CurrentBucket:
    """The bucket that a pod is compiling or capturing, with its start (`since`) and its forecast in seconds."""

    phase: BucketPhase
    bucket: Shape
    since: datetime
    forecast_seconds: float

    @property
    def limit(self) -> float:
        """The number of seconds after which the bucket counts as slow."""
        return max(LEAST_SECONDS, SLOW_FACTOR * self.forecast_seconds)


def describe_slow_bucket(pod: PodView, deadlines: Deadlines) -> str | None:
    """Return a sentence about the current bucket of the pod if this bucket is slow, or None.

    Without a forecast, no bucket counts as slow.
    """
    current = _current_bucket(pod)
    if current is None or pod.report is None or not deadlines.has_passed(current.since, current.limit):
        return None
    return (
        f"{current.phase.capitalize()} bucket {current.bucket} takes more than {current.limit:.0f} s in phase "
        f"{pod.report.phase}, but similar buckets take {current.forecast_seconds:.1f} s (an estimate)."
    )


def _current_bucket(pod: PodView) -> _CurrentBucket | None:
    """Return the current bucket of the pod, or None if there is no current bucket with a forecast.

    The bucket started when the progress last changed.
    """
    report = pod.report
    if report is None or pod.report_received_at is None or report.phase not in (Phase.COMPILING, Phase.CAPTURING):
        return None
    since = pod.report_received_at - timedelta(seconds=report.since_progress_seconds)
    for phase, progress in ((BucketPhase.PROMPT, report.prompt), (BucketPhase.DECODE, report.decode)):
        if progress.current is not None and progress.forecast_seconds is not None:
            return _CurrentBucket(phase, progress.current, since, progress.forecast_seconds)
    return None
