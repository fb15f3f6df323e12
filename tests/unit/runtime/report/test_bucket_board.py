"""The state of each bucket after a real warm-up on the simulated card, as the status port reports it."""

import threading
from collections import Counter

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucket_table import MOST_ROWS, BucketState, BucketTable
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig, WarmupConfig
from gaudi_runtime.contract.report import BucketPhase, SkippedBucketReport
from gaudi_runtime.report.bucket_board import BucketBoard
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from gaudi_runtime.traffic.serving_histogram import Key, ServingTally
from tests.unit.runtime.configs import sim_config

PROMPT, DECODE = BucketPhase


def board_after_start(config: RuntimeConfig) -> tuple[ReportBoard, BucketTable]:
    board = ReportBoard("a" * 64)
    start_engine(config, board, threading.Event())
    return board, board.buckets.table("i", {})


def states(table: BucketTable) -> Counter[tuple[BucketPhase, BucketState]]:
    return Counter((row.phase, row.state) for row in table.rows)


async def test_captured_rows_equal_the_counts_of_the_report() -> None:
    board, table = board_after_start(sim_config())
    report = board.report()
    assert states(table) == {
        (PROMPT, BucketState.CAPTURED): report.prompt.captured,
        (DECODE, BucketState.CAPTURED): report.decode.captured,
    }
    assert report.prompt.captured == report.prompt.planned > 0


@pytest.mark.parametrize("mode", [ExecutionMode.EAGER, ExecutionMode.LAZY])
async def test_modes_without_graphs_end_with_warm_buckets(mode: ExecutionMode) -> None:
    _, table = board_after_start(sim_config(mode=mode))
    assert {row.state for row in table.rows} == {BucketState.WARM}


async def test_disabled_warmup_leaves_all_buckets_planned() -> None:
    _, table = board_after_start(sim_config(warmup=WarmupConfig(enabled=False)))
    assert {row.state for row in table.rows} == {BucketState.PLANNED}


async def test_bucket_that_does_not_compile_is_cold_with_its_reason() -> None:
    _, table = board_after_start(sim_config({"oomAtCompile": "prompt:2"}))
    [cold] = [row for row in table.rows if row.state is BucketState.COLD]
    assert cold.reason is not None
    assert "ran out of memory" in cold.reason


async def test_buckets_after_a_failed_capture_are_compiled_without_graphs() -> None:
    board, table = board_after_start(sim_config({"oomAtBucket": "prompt:2"}))
    left = [row for row in table.rows if row.state is BucketState.WITHOUT_GRAPH]
    assert [tuple(each.bucket) for each in left] == [tuple(each.bucket) for each in _skipped(board)]


def _skipped(board: ReportBoard) -> list[SkippedBucketReport]:
    return sorted(board.report().skipped, key=lambda each: each.bucket)


async def test_traffic_is_listed_with_its_bucket() -> None:
    board, table = board_after_start(sim_config())
    first = table.rows[0]
    met: dict[Key, ServingTally] = {(first.phase, Bucket(*first.bucket)): ServingTally(hits=5, misses=1, compiles=1)}
    row = board.buckets.table("i", met).rows[0]
    assert (row.hits, row.misses, row.compiles) == (5, 1, 1)


def test_shape_without_a_bucket_is_listed_as_unplanned() -> None:
    met: dict[Key, ServingTally] = {(DECODE, Bucket(7, 1, 9)): ServingTally(misses=2)}
    [row] = BucketBoard().table("i", met).rows
    assert (row.state, tuple(row.bucket), row.misses) == (BucketState.UNPLANNED, (7, 1, 9), 2)


def test_rows_beyond_the_limit_are_counted() -> None:
    met: dict[Key, ServingTally] = {
        (DECODE, Bucket(1, 1, blocks)): ServingTally(hits=1) for blocks in range(MOST_ROWS + 3)
    }
    table = BucketBoard().table("i", met)
    assert (len(table.rows), table.left_off) == (MOST_ROWS, 3)
