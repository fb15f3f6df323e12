"""Bring what the engine counts while serving into the report: recompiles and the most frequent cold shapes."""

import asyncio
import logging
from typing import NoReturn

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import MAX_COLD_SHAPES, BucketPhase, ColdShape
from gaudi_runtime.engines.protocol import Engine
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.traffic.serving_histogram import ServingHistogram

log = logging.getLogger("gaudi_runtime.warmup")

LOOK_SECONDS = 1.0


async def publish_counters(engine: Engine, board: ReportBoard) -> NoReturn:
    """Look once a second; publish and log only what is new."""
    compiles = board.report().compiles
    seen: dict[tuple[BucketPhase, Bucket], int] = {}
    recompiles = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        counters = engine.counters
        cold = counters.cold
        if cold == seen and counters.recompiles == recompiles:
            continue
        for phase, bucket in cold.keys() - seen.keys():
            log.warning("Configuration: (%s, %d, %d, %d) was not warmed-up!", phase, *bucket)
        seen, recompiles = cold, counters.recompiles
        board.update(
            recompiles_since_ready=recompiles, compiles=compiles + recompiles, cold_shapes=most_frequent(counters)
        )


def most_frequent(counters: ServingHistogram) -> tuple[ColdShape, ...]:
    """The cold shapes that were met most often, at most MAX_COLD_SHAPES."""
    by_count = sorted(counters.cold.items(), key=lambda item: -item[1])
    return tuple(
        ColdShape(phase=phase, shape=bucket, count=count) for (phase, bucket), count in by_count[:MAX_COLD_SHAPES]
    )
