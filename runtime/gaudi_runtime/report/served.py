"""The summary of served batches for the report: totals, the most frequent shapes, and the most frequent cold shapes."""

from collections.abc import Iterable, Mapping
from heapq import nlargest

from gaudi_runtime.contract.compiles import COMPILE_BOUNDS, MAX_STEP_COMPILES, RECOMPILATION_SECONDS, CompileTimes
from gaudi_runtime.contract.report import (
    MAX_COLD_SHAPES,
    MAX_SERVED_BUCKETS,
    BucketPhase,
    ColdShape,
    ServedBucketReport,
    ServedPhaseReport,
    ServedTrafficReport,
    ServedVisionReport,
)
from gaudi_runtime.contract.report_fields import MOST_COUNT
from gaudi_runtime.traffic.padding import Padding
from gaudi_runtime.traffic.serving_histogram import (
    SERVING,
    Key,
    ServingHistogram,
    ServingTally,
    ServingVisionTally,
    serving_blocks_of,
)

Item = tuple[Key, ServingTally]


def summarize_served(histogram: ServingHistogram) -> ServedTrafficReport:
    """Summarize the served batches for the report: totals of each phase, and the most frequent shapes."""
    items = list(histogram.tallies.items())
    top_items = nlargest(MAX_SERVED_BUCKETS, items, key=lambda item: item[1].batches)
    return ServedTrafficReport(
        prompt=_served_phase(BucketPhase.PROMPT, items, histogram.padding),
        decode=_served_phase(BucketPhase.DECODE, items, histogram.padding),
        vision=_served_vision(histogram.vision) if histogram.vision else None,
        buckets=tuple(_served_bucket(item) for item in top_items if item[1].batches),
        step_compiles=tuple(
            nlargest(MAX_STEP_COMPILES, histogram.step_compiles.values(), key=lambda step: step.seconds)
        ),
        small_compiles=min(sum(map(_count_small_compiles, histogram.compile_times.values())), MOST_COUNT),
        compile_times=tuple(histogram.compile_times.values()),
    )


def _count_small_compiles(times: CompileTimes) -> int:
    """Count the parts of steps whose compilations were too short to count as a recompilation."""
    bounded_counts = zip(COMPILE_BOUNDS, times.counts, strict=False)
    return sum(count for bound, count in bounded_counts if times.stage == SERVING and bound <= RECOMPILATION_SECONDS)


def coldest_served_shapes(histogram: ServingHistogram) -> tuple[ColdShape, ...]:
    """Return the served shapes with the most cold batches, for the report."""
    cold_items = [item for item in histogram.tallies.items() if item[1].misses]
    top_items = nlargest(MAX_COLD_SHAPES, cold_items, key=lambda item: item[1].misses)
    return tuple(_cold_shape(item) for item in top_items)


def _cold_shape(item: Item) -> ColdShape:
    (phase, bucket), tally = item
    return ColdShape(
        phase=phase,
        shape=bucket,
        count=min(tally.misses, MOST_COUNT),
        compiles=min(tally.compiles, MOST_COUNT),
        needed=tally.needed,
    )


def _served_phase(
    phase: BucketPhase, items: Iterable[Item], paddings: Mapping[BucketPhase, Padding]
) -> ServedPhaseReport:
    padding = paddings.get(phase)
    phase_items = [(bucket, tally) for (item_phase, bucket), tally in items if item_phase is phase]
    return ServedPhaseReport(
        hits=sum(tally.hits for _, tally in phase_items),
        misses=sum(tally.misses for _, tally in phase_items),
        recompiles=min(sum(tally.compiles for _, tally in phase_items), MOST_COUNT),
        real_tokens=sum(tally.tokens for _, tally in phase_items),
        padded_tokens=sum(tally.batches * bucket.batch_size * bucket.query_len for bucket, tally in phase_items),
        real_blocks=sum(tally.blocks for _, tally in phase_items),
        padded_blocks=sum(tally.batches * serving_blocks_of(phase, bucket) for bucket, tally in phase_items),
        padding=padding and padding.observed,
        forecast_padding=padding and padding.forecast,
    )


def _served_vision(tally: ServingVisionTally) -> ServedVisionReport:
    recompiles = min(tally.compiles, MOST_COUNT)
    return ServedVisionReport(hits=tally.hits, misses=tally.misses, recompiles=recompiles, cold=tally.cold)


def _served_bucket(item: Item) -> ServedBucketReport:
    (phase, bucket), tally = item
    return ServedBucketReport(
        phase=phase,
        bucket=bucket,
        hits=tally.hits,
        misses=tally.misses,
        real_tokens=tally.tokens,
        real_blocks=tally.blocks,
    )
