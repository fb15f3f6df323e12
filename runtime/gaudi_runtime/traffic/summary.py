"""A ServingHistogram in the few numbers that a report has room for."""

from collections.abc import Iterable
from heapq import nlargest

from gaudi_runtime.contract.report import (
    MAX_COLD_SHAPES,
    MAX_SERVED_BUCKETS,
    MOST_COUNT,
    BucketPhase,
    ColdShape,
    Served,
    ServedBucket,
    ServedPhase,
)
from gaudi_runtime.traffic.serving_histogram import Key, ServingHistogram, Tally, blocks_of

Item = tuple[Key, Tally]


def summary(histogram: ServingHistogram) -> Served:
    """Totals of each phase, and the shapes that most batches ran at."""
    items = list(histogram.tallies.items())
    most = nlargest(MAX_SERVED_BUCKETS, items, key=lambda item: item[1].batches)
    return Served(
        prompt=_phase(BucketPhase.PROMPT, items),
        decode=_phase(BucketPhase.DECODE, items),
        buckets=tuple(_bucket(item) for item in most if item[1].batches),
    )


def coldest(histogram: ServingHistogram) -> tuple[ColdShape, ...]:
    """The shapes that were met cold most often."""
    cold = [item for item in histogram.tallies.items() if item[1].misses]
    most = nlargest(MAX_COLD_SHAPES, cold, key=lambda item: item[1].misses)
    return tuple(_cold(item) for item in most)


def _cold(item: Item) -> ColdShape:
    (phase, bucket), tally = item
    return ColdShape(
        phase=phase,
        shape=bucket,
        count=min(tally.misses, MOST_COUNT),
        compiles=min(tally.compiles, MOST_COUNT),
        needed=tally.needed,
    )


def _phase(phase: BucketPhase, items: Iterable[Item]) -> ServedPhase:
    mine = [(bucket, tally) for (of, bucket), tally in items if of is phase]
    return ServedPhase(
        hits=sum(tally.hits for _, tally in mine),
        misses=sum(tally.misses for _, tally in mine),
        recompiles=min(sum(tally.compiles for _, tally in mine), MOST_COUNT),
        real_tokens=sum(tally.tokens for _, tally in mine),
        padded_tokens=sum(tally.batches * bucket.batch_size * bucket.query_len for bucket, tally in mine),
        real_blocks=sum(tally.blocks for _, tally in mine),
        padded_blocks=sum(tally.batches * blocks_of(phase, bucket) for bucket, tally in mine),
    )


def _bucket(item: Item) -> ServedBucket:
    (phase, bucket), tally = item
    return ServedBucket(
        phase=phase,
        bucket=bucket,
        hits=tally.hits,
        misses=tally.misses,
        real_tokens=tally.tokens,
        real_blocks=tally.blocks,
    )
