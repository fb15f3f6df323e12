"""Cold shapes during serving, from the engine to the report and the log."""

import asyncio
import logging

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import WarmupConfig
from gaudi_runtime.contract.report import (
    RECENT_SECONDS,
    BucketPhase,
    RequestCountsReport,
    ServedPhaseReport,
)
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.report.serving_counters import CounterPublisher, RecentRecompileCounter, publish_counters
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, ServingPaddedShape
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import served


async def test_cold_shapes_are_reported_most_frequent_first_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = ReportBoard("0" * 64)
    async with served(sim_config(warmup=WarmupConfig(enabled=False))) as api:
        counting = asyncio.create_task(publish_counters(lambda: api.engine.counters, api.metrics.request_counts, board))
        for length in (100, 200, 150):
            await api.openai.completions.create(model="echo", prompt="x" * length, max_tokens=1)
        report = await board.wait_for_update(board.report().sequence, 30)
        counting.cancel()
    assert report.recompiles_since_ready == 3
    assert {(cold.phase, cold.shape, cold.count) for cold in report.cold_shapes} == {
        ("prompt", (1, 128, 0), 1),
        ("prompt", (1, 256, 0), 1),
        ("decode", (2, 1, 8), 1),
    }
    logged = [message for message in caplog.messages if "was not warmed-up!" in message]
    assert "Configuration: (prompt, 1, 128, 0) was not warmed-up!" in logged
    assert len(logged) == 3


async def test_warm_shapes_are_hits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with served(sim_config()) as api:
        await api.openai.completions.create(model="echo", prompt="x" * 100, max_tokens=10)
        assert (api.engine.counters.hits, api.engine.counters.cold_batches) == (11, {})


async def test_hits_are_reported_without_waking_waiters() -> None:
    board, histogram = ReportBoard("0" * 64), ServingHistogram(lambda _, real: ServingPaddedShape(real, warm=True))
    publisher, sequence = CounterPublisher(board), board.report().sequence
    histogram.count_batch(BucketPhase.PROMPT, Bucket(1, 100, 0))
    publisher.publish(histogram, RequestCountsReport(), 1.0)
    assert board.report().served.prompt == ServedPhaseReport(hits=1, real_tokens=100, padded_tokens=100)
    assert board.report().sequence == sequence


async def test_recompile_changes_the_report_when_it_starts_and_expires() -> None:
    board, histogram = ReportBoard("0" * 64), ServingHistogram(lambda _, real: ServingPaddedShape(real, warm=False))
    publisher, seen = CounterPublisher(board), []
    histogram.count_compiles(BucketPhase.PROMPT, histogram.count_batch(BucketPhase.PROMPT, Bucket(1, 100, 0)))
    for now in (1.0, 2.0, 1.0 + RECENT_SECONDS):
        publisher.publish(histogram, RequestCountsReport(), now)
        seen.append((board.report().sequence, board.report().recent_recompiles))
    assert seen == [(2, 1), (2, 1), (3, 0)]


async def test_recompiles_are_added_to_the_compiles_of_the_start() -> None:
    board, histogram = ReportBoard("0" * 64), ServingHistogram(lambda _, real: ServingPaddedShape(real, warm=False))
    board.update(compiles=40)
    histogram.count_compiles(BucketPhase.PROMPT, histogram.count_batch(BucketPhase.PROMPT, Bucket(1, 100, 0)))
    CounterPublisher(board).publish(histogram, RequestCountsReport(), 1.0)
    assert (board.report().compiles, board.report().recompiles_since_ready) == (41, 1)


async def test_doubled_failures_wake_waiters_but_requests_do_not() -> None:
    board, histogram = ReportBoard("0" * 64), ServingHistogram(lambda _, real: ServingPaddedShape(real, warm=True))
    publisher, seen = CounterPublisher(board), []
    for running, failed in ((1, 0), (7, 1), (7, 2), (7, 3), (0, 4)):
        publisher.publish(histogram, RequestCountsReport(running=running, failed=failed), 1.0)
        seen.append(board.report().sequence)
    assert seen == [1, 2, 3, 3, 4]
    assert board.report().requests == RequestCountsReport(running=0, failed=4)


def test_recompiles_are_recent_for_five_minutes() -> None:
    recent = RecentRecompileCounter()
    assert recent.count_recent(3, now=10.0) == 3
    assert recent.count_recent(5, now=200.0) == 5
    assert recent.count_recent(5, now=10.0 + RECENT_SECONDS) == 2
    assert recent.count_recent(5, now=200.0 + RECENT_SECONDS) == 0


async def test_cold_images_wake_waiters_once_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    board, histogram = ReportBoard("0" * 64), ServingHistogram(lambda _, real: ServingPaddedShape(real, warm=True))
    publisher = CounterPublisher(board)
    for _ in range(2):
        histogram.add_rows([], [["pixel_values 80x1176", False, 1, 0]])
        publisher.publish(histogram, RequestCountsReport(), 1.0)
    assert board.report().sequence == 2
    assert caplog.messages == ["Vision tower: (pixel_values 80x1176) was not warmed-up!"]
