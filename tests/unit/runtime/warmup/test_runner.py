"""The orchestrator against the sim engine: order, budget, faults and what the report says."""

import logging
import threading

import pytest

from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig, WarmupConfig
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.startup import start_engine
from gaudi_runtime.warmup.runner import Stopped
from tests.unit.runtime.configs import GIB, sim_config


def start(config: RuntimeConfig) -> WarmupReport:
    board = ReportBoard("0" * 64)
    start_engine(config, board, threading.Event())
    return board.report()


async def test_everything_planned_is_warmed_and_captured() -> None:
    report = start(sim_config())
    assert (report.prompt.planned, report.prompt.warmed, report.prompt.captured) == (4, 4, 4)
    assert report.decode.planned == report.decode.warmed == report.decode.captured > 0
    assert report.sampler_done
    assert report.defragmenter_done
    assert report.compiles == report.prompt.planned + report.decode.planned
    assert report.skipped == ()


async def test_memory_is_split_as_documented() -> None:
    script = {"deviceMemoryBytes": 100 * GIB, "weightBytes": 0, "blockBytes": GIB}
    memory = start(sim_config(script)).memory
    assert memory is not None
    assert (memory.free, memory.usable, memory.graphs) == (100 * GIB, 90 * GIB, 9 * GIB)
    assert memory.kv_blocks == 81


async def test_graph_bytes_are_the_measured_ones() -> None:
    report = start(sim_config({"graphBytesPerToken": 1000}))
    assert report.prompt.graph_bytes == 1000 * (128 + 256 + 384 + 512)


async def test_graphs_beyond_the_budget_are_left_with_a_reason() -> None:
    warmup = WarmupConfig(graph_memory_share=0.01)
    report = start(sim_config({"graphBytesPerToken": 2 * 1024**2}, warmup=warmup))
    assert report.prompt.captured < report.prompt.planned
    assert report.prompt.warmed == report.prompt.planned
    assert report.skipped_total == report.prompt.planned - report.prompt.captured
    assert "bytes" in report.skipped[0].reason


async def test_out_of_memory_ends_capture_of_its_phase_only() -> None:
    report = start(sim_config({"oomAtBucket": "decode:2"}))
    assert report.decode.captured == 1
    assert report.prompt.captured == report.prompt.planned
    assert report.skipped_total == report.decode.planned - 1


@pytest.mark.parametrize("mode", [ExecutionMode.EAGER, ExecutionMode.LAZY])
async def test_eager_modes_capture_nothing_and_leave_the_sampler_alone(mode: ExecutionMode) -> None:
    report = start(sim_config(mode=mode))
    assert (report.prompt.capture_applies, report.prompt.captured, report.prompt.warmed) == (False, 0, 4)
    assert not report.sampler_done


async def test_switched_off_warmup_warms_nothing_and_says_so() -> None:
    report = start(sim_config(warmup=WarmupConfig(enabled=False)))
    assert report.warmup_skipped
    assert (report.prompt.planned, report.prompt.warmed, report.prompt.capture_applies) == (4, 0, False)


async def test_a_card_without_room_for_a_block_is_an_impossible_plan() -> None:
    with pytest.raises(PlanImpossible):
        start(sim_config({"deviceMemoryBytes": 17 * GIB, "blockBytes": 2 * GIB}))


async def test_a_stop_between_two_buckets_ends_warmup() -> None:
    stop = threading.Event()
    stop.set()
    board = ReportBoard("0" * 64)
    with pytest.raises(Stopped):
        start_engine(sim_config(), board, stop)
    assert board.report().prompt.warmed == 0


async def test_log_lines_are_those_that_users_grep_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    start(sim_config({"graphBytesPerToken": 1024**2}))
    lines = caplog.messages
    assert (
        "Generated 4 prompt buckets [bs, query, num_blocks]: [[1, 128, 0], [1, 256, 0], [1, 384, 0], [1, 512, 0]]"
    ) in lines
    assert any(
        line.startswith("[Warmup][Prompt][1/4] batch_size:1 query_len:512 num_blocks:0 free_mem:") for line in lines
    )
    assert any(
        line.startswith("[Warmup][Graph/Prompt][1/4] batch_size:1 query_len:128 num_blocks:0 free_mem:")
        for line in lines
    )
    assert any(line.startswith("Graph/Prompt captured:4 (100.0%) used_mem:1.25 GiB buckets:[[1, ") for line in lines)
    assert any(line.startswith("Warmup finished in 0 secs, allocated ") for line in lines)
