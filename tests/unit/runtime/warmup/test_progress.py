"""The log lines of a warm-up, which equal the lines of public servers, and the buckets that are left out."""

import logging

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.preparation import Preparation
from gaudi_runtime.contract.report import (
    BucketPhase,
    PhaseProgressReport,
    SharedRecipesOutcome,
    SharedRecipesReport,
    SkippedBucketReport,
    SkippedVisionBucketReport,
    VisionBucket,
    VisionProgressReport,
)
from gaudi_runtime.memory_split import GraphPool
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.units import GIB
from gaudi_runtime.warmup.progress import (
    Progress,
    captured_progress_line,
    finished_progress_line,
    graph_shares_progress_line,
    step_progress_line,
    vision_progress_line,
)

PROMPT = BucketPhase.PROMPT


def test_step_names_stage_position_shape_and_free_memory() -> None:
    line = step_progress_line("Graph/Prompt", Bucket(4, 256, 0), 12, 24, int(47.35 * GIB))
    assert line == "[Warmup][Graph/Prompt][12/24] batch_size:4 query_len:256 num_blocks:0 free_mem:47.35 GiB"


def test_captured_line_has_percent_memory_and_sorted_buckets() -> None:
    line = captured_progress_line(
        PROMPT, [Bucket(2, 128, 0), Bucket(1, 128, 0)], PhaseProgressReport(planned=3), int(14.03 * GIB)
    )
    assert line == "Graph/Prompt captured:2 (66.6%) used_mem:14.03 GiB buckets:[[1, 128, 0], [2, 128, 0]]"


def test_percentage_of_captured_graphs_is_floored() -> None:
    buckets = [Bucket(1, query, 0) for query in range(1, 3000)]
    assert "captured:2999 (99.9%)" in captured_progress_line(PROMPT, buckets, PhaseProgressReport(planned=3000), 0)


def test_phase_without_buckets_is_complete() -> None:
    assert "captured:0 (100.0%)" in captured_progress_line(PROMPT, [], PhaseProgressReport(), 0)


def test_line_of_a_mode_without_graphs_says_executed() -> None:
    progress = PhaseProgressReport(planned=1, preparation=Preparation.EXECUTION)
    assert "Graph/Prompt executed:1 (100.0%)" in captured_progress_line(PROMPT, [Bucket(1, 128, 0)], progress, 0)


def test_line_of_graph_shares_equals_the_reference_logs() -> None:
    pool = GraphPool(int(15.85 * GIB), int(4.755 * GIB), int(11.095 * GIB))
    assert graph_shares_progress_line(pool, int(55.43 * GIB), 0.3) == (
        "Using 15.85 GiB/55.43 GiB of free device memory for graphs, "
        "4.755 GiB for prompt and 11.09 GiB for decode (promptRatio=0.3)"
    )


def test_finished_line_has_seconds_and_memory() -> None:
    line = finished_progress_line(49.2, int(14.19 * GIB))
    assert line == "Warmup finished in 49 secs, allocated 14.19 GiB of device memory"


@pytest.mark.parametrize(("left_out", "named"), [(3, 3), (60, 50)])
async def test_report_lists_at_most_fifty_skipped_buckets(left_out: int, named: int) -> None:
    board = ReportBoard("0" * 64)
    progress = Progress(board, BucketPlan((), ()), Preparation.CAPTURE)
    for query in range(1, left_out + 1):
        progress.publish_skipped([SkippedBucketReport(phase=PROMPT, bucket=Bucket(1, query, 0), reason="memory")])
    report = board.report()
    assert (len(report.skipped), report.skipped_total) == (named, left_out)


async def test_log_names_skipped_buckets_with_their_reason(caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress(ReportBoard("0" * 64), BucketPlan((), ()), Preparation.CAPTURE)
    progress.publish_skipped([SkippedBucketReport(phase=PROMPT, bucket=Bucket(1, 128, 0), reason="no memory")])
    assert caplog.messages == ["prompt bucket [1, 128, 0] was left out: no memory"]


async def test_log_lists_the_vision_plan(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    progress = Progress(ReportBoard("0" * 64), BucketPlan((), ()), Preparation.CAPTURE)
    progress.publish_vision_plan([VisionBucket("image", 448, 224, 2)])
    assert caplog.messages == ["Generated 1 vision buckets [modality WxHxitems]: ['image 448x224x2']"]


@pytest.mark.parametrize(("copied", "saved"), [(2.0, 8.0), (20.0, 0.0)])
async def test_saved_seconds_are_a_sum_minus_the_copy(copied: float, saved: float) -> None:
    board = ReportBoard("0" * 64)
    board.update(shared_recipes=SharedRecipesReport(outcome=SharedRecipesOutcome.HIT, seconds=copied))
    buckets = (Bucket(1, 128, 0), Bucket(1, 256, 0))
    progress = Progress(board, BucketPlan(buckets, ()), Preparation.CAPTURE)
    for bucket in buckets:
        progress.publish_warm(PROMPT, bucket, None, saved_seconds=5.0)
    assert board.report().recipe_seconds_saved == saved


async def test_report_counts_the_runs_of_the_vision_tower() -> None:
    board, buckets = ReportBoard("0" * 64), [VisionBucket("image", size, size, 1) for size in (224, 448, 896)]
    progress = Progress(board, BucketPlan((), ()), Preparation.CAPTURE)
    progress.publish_vision_plan(buckets)
    for position, bucket in enumerate(buckets[:2], 1):
        progress.publish_vision_running(bucket, position, GIB)
        vision = board.report().vision
        assert vision is not None
        assert vision.current == bucket
        progress.publish_vision_warm(1000)
    progress.publish_vision_skipped(buckets[2:], "memory")
    assert board.report().vision == VisionProgressReport(
        planned=3, warmed=2, device_bytes=2000, skipped=(SkippedVisionBucketReport(bucket=buckets[2], reason="memory"),)
    )


def test_run_of_the_vision_tower_names_size_and_items() -> None:
    line = vision_progress_line(VisionBucket("image", 448, 224, 2), 3, 10, int(47.35 * GIB))
    assert line == "[Warmup][Vision][3/10] modality:image width:448 height:224 items:2 free_mem:47.35 GiB"
