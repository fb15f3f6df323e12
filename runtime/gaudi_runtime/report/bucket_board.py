"""The bucket board: the state of each planned bucket. The warm-up thread writes it, the status port reads it.

The engine counts the batches of each bucket. Each request of the table combines the states and the counts.
"""

import threading
from collections.abc import Iterable, Mapping

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucket_table import MOST_ROWS, BucketRow, BucketState, BucketTable
from gaudi_runtime.contract.report import BucketPhase, SkippedBucketReport
from gaudi_runtime.contract.report_fields import MOST_COUNT
from gaudi_runtime.traffic.serving_histogram import Key, ServingTally

NO_BATCH = ServingTally()
MOST_REASON = 512


class BucketBoard:
    """The state of every planned bucket, by phase and bucket. It is empty before a plan is set. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[Key, BucketState] = {}
        self._reasons: dict[Key, str] = {}

    def set_plan(self, plan: BucketPlan) -> None:
        """Set the planned buckets."""
        with self._lock:
            self._states = {
                (phase, bucket): BucketState.PLANNED for phase in BucketPhase for bucket in plan.buckets_of(phase)
            }
            self._reasons = {}

    def set_state(self, phase: BucketPhase, bucket: Bucket, state: BucketState) -> None:
        """Set the state of one bucket."""
        with self._lock:
            self._states[phase, bucket] = state

    def record_skipped(self, skipped: Iterable[SkippedBucketReport]) -> None:
        """Record that these buckets were left out. They stay cold or without a graph."""
        with self._lock:
            for skipped_bucket in skipped:
                key = (skipped_bucket.phase, Bucket(*skipped_bucket.bucket))
                compiled = self._states.get(key) in (BucketState.WARM, BucketState.CAPTURING, BucketState.WITHOUT_GRAPH)
                self._states[key] = BucketState.WITHOUT_GRAPH if compiled else BucketState.COLD
                self._reasons[key] = skipped_bucket.reason[:MOST_REASON]

    def table(self, instance: str, tallies: Mapping[Key, ServingTally]) -> BucketTable:
        """Return the table of all planned buckets, followed by the unplanned shapes of served batches."""
        with self._lock:
            states, reasons = dict(self._states), dict(self._reasons)
        states |= {key: BucketState.UNPLANNED for key in tallies if key not in states}
        rows = tuple(
            _row(key, state, reasons.get(key), tallies.get(key, NO_BATCH))
            for key, state in list(states.items())[:MOST_ROWS]
        )
        return BucketTable(instance=instance, rows=rows, left_off=len(states) - len(rows))


def _row(key: Key, state: BucketState, reason: str | None, tally: ServingTally) -> BucketRow:
    phase, bucket = key
    return BucketRow(
        phase=phase,
        bucket=bucket,
        state=state,
        reason=reason,
        hits=tally.hits,
        misses=tally.misses,
        compiles=min(tally.compiles, MOST_COUNT),
    )
