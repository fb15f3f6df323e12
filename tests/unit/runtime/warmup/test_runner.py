"""The orchestrator with the sim engine: order, budget, faults and the report."""

import logging
import threading
from pathlib import Path

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketingRangeSettings
from gaudi_runtime.contract.config import CaptureOrder, ExecutionMode, RuntimeConfig, WarmupConfig
from gaudi_runtime.contract.report import MAX_REPORT_BYTES, MAX_SKIPPED, BucketPhase, WarmupReport
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.configs import GIB, linear, sim_config
from tests.unit.runtime.engines.sim.completions import complete
from tests.unit.runtime.engines.sim.reference import LOGGED_ORDERS
from tests.unit.runtime.warmup.virtual import VirtualClock, report_with_plan, start_on_virtual_clock


def start(config: RuntimeConfig) -> WarmupReport:
    board = ReportBoard("0" * 64)
    start_engine(config, board, threading.Event())
    return board.report()


async def test_all_planned_buckets_are_warmed_and_captured() -> None:
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


async def test_report_has_the_measured_graph_bytes() -> None:
    report = start(sim_config({"graphBytesPerToken": 1000}))
    assert report.prompt.graph_bytes == 1000 * (128 + 256 + 384 + 512)


async def test_graphs_beyond_the_budget_are_skipped_with_a_reason() -> None:
    warmup = WarmupConfig(graph_memory_share=0.01)
    report = start(sim_config({"graphBytesPerToken": 2 * 1024**2}, warmup=warmup))
    assert report.prompt.captured < report.prompt.planned
    assert report.prompt.warmed == report.prompt.planned
    assert report.skipped_total == report.prompt.planned - report.prompt.captured
    assert "left for prompt" in report.skipped[0].reason
    assert (report.prompt.left_out_for_memory, report.prompt.failed) == (report.skipped_total, 0)
    assert report.prompt.left_out_bytes == sum(each.graph_bytes for each in report.skipped) > 0


async def test_out_of_memory_ends_capture_of_only_one_phase() -> None:
    report = start(sim_config({"oomAtBucket": "decode:2"}))
    assert report.decode.captured == 1
    assert report.prompt.captured == report.prompt.planned
    assert report.skipped_total == report.decode.left_out_for_memory == report.decode.planned - 1


async def test_memory_error_before_any_graph_fails_the_phase() -> None:
    report = start(sim_config({"oomAtBucket": "decode:1"}))
    assert (report.decode.captured, report.decode.left_out_for_memory) == (0, 0)
    assert report.decode.failed == report.decode.planned


async def test_phase_without_memory_for_a_graph_has_not_failed() -> None:
    warmup = WarmupConfig(graph_memory_share=0.0)
    config = sim_config(warmup=warmup)
    engine = config.engine.model_copy(update={"device_memory_utilization": 1.0})
    report = start(config.model_copy(update={"engine": engine}))
    assert (report.decode.captured, report.decode.failed) == (0, 0)
    assert report.decode.left_out_for_memory == report.decode.planned


@pytest.mark.parametrize("mode", [ExecutionMode.EAGER, ExecutionMode.LAZY])
async def test_eager_modes_skip_capture_and_sampler_warm_up(mode: ExecutionMode) -> None:
    report = start(sim_config(mode=mode))
    assert (report.prompt.preparation, report.prompt.captured, report.prompt.warmed) == ("Nothing", 0, 4)
    assert not report.sampler_done


async def test_torch_compile_executes_each_bucket_a_second_time() -> None:
    report = start(sim_config(mode=ExecutionMode.TORCH_COMPILE))
    assert (report.prompt.preparation, report.prompt.captured) == ("Execution", 4)


async def test_disabled_warm_up_is_reported_with_no_warmed_buckets() -> None:
    report = start(sim_config(warmup=WarmupConfig(enabled=False)))
    assert report.warmup_skipped
    assert (report.prompt.planned, report.prompt.warmed, report.prompt.preparation) == (4, 0, "Nothing")


async def test_card_without_room_for_a_block_is_an_impossible_plan() -> None:
    with pytest.raises(PlanImpossible):
        start(sim_config({"deviceMemoryBytes": 17 * GIB, "blockBytes": 2 * GIB}))


async def test_stop_between_two_buckets_ends_warmup() -> None:
    stop = threading.Event()
    stop.set()
    board = ReportBoard("0" * 64)
    with pytest.raises(Stopped):
        start_engine(sim_config(), board, stop)
    assert board.report().prompt.warmed == 0


async def test_log_lines_of_the_warm_up_have_the_known_format(caplog: pytest.LogCaptureFixture) -> None:
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
    assert any(line.startswith("Warmup finished in 0 secs") for line in lines)


def start_with_budget(seconds: int, orders: dict[str, CaptureOrder] = LOGGED_ORDERS, **script: object) -> WarmupReport:
    """Run a warm-up until its time budget ends it. Each compile and each capture takes a simulated second."""
    clock = VirtualClock()
    warmup = WarmupConfig(time_budget_seconds=seconds, **orders)
    return start_on_virtual_clock(
        sim_config({"compileSeconds": 1, "captureSeconds": 1, **script}, warmup=warmup), clock
    )


async def test_cover_first_reserves_time_for_graphs_of_compiled_buckets() -> None:
    report = start_with_budget(12, {})
    assert report.prompt.warmed + report.decode.warmed == 6
    assert (report.prompt.captured, report.decode.captured) == (report.prompt.warmed, report.decode.warmed)


async def test_buckets_beyond_the_time_budget_are_left_out() -> None:
    report = start_with_budget(12, {})
    phases = (report.prompt, report.decode)
    assert sum(phase.left_out_by_limit for phase in phases) == report.skipped_total > 0
    assert [phase.failed for phase in phases] == [0, 0]


async def test_covering_set_is_compiled_with_any_time_budget() -> None:
    report = start_with_budget(1, {}, slowAtBucket="prompt:1", slowSeconds=100)
    assert (report.prompt.warmed, report.decode.warmed) == (1, 1)
    assert (report.prompt.captured, report.decode.captured) == (1, 1)
    assert (1, 512, 0) not in {tuple(each.bucket) for each in report.skipped}


async def test_phases_alternate_after_their_covering_sets() -> None:
    report = start_with_budget(10, {})
    assert (report.prompt.warmed, report.decode.warmed) == (2, 3)


@pytest.mark.parametrize("orders", [{}, LOGGED_ORDERS], ids=["cover first", "as logged"])
async def test_requests_are_padded_to_warm_buckets(orders: dict[str, CaptureOrder]) -> None:
    clock = VirtualClock()
    warmup = WarmupConfig(time_budget_seconds=6, **orders)
    engine = SimEngine(sim_config({"compileSeconds": 1}, warmup=warmup), clock.sleep)
    start_on_virtual_clock(sim_config({"compileSeconds": 1}, warmup=warmup), clock, engine)
    engine.start_serving()
    for tokens in (10, 130, 300, 500):
        await complete(engine, "x" * tokens)
    assert engine.counters.tallies
    assert all((each.misses, each.compiles) == (0, 0) for each in engine.counters.tallies.values())


async def test_budget_exhausted_in_capture_skips_remaining_graphs() -> None:
    report = start_with_budget(12)
    assert (report.prompt.warmed, report.decode.warmed) == (4, 6)
    assert (report.prompt.captured, report.decode.captured) == (2, 0)
    assert report.skipped_total == 8
    assert all("time budget of 12 s" in skipped.reason for skipped in report.skipped)


async def test_budget_exhausted_in_compilation_leaves_remaining_buckets_cold() -> None:
    report = start_with_budget(5)
    assert (report.prompt.warmed, report.decode.warmed, report.prompt.captured) == (4, 1, 0)
    assert (report.prompt.planned, report.decode.planned) == (4, 6)
    assert report.skipped_total == 10
    assert report.sampler_done


async def test_running_bucket_is_finished_when_the_budget_ends() -> None:
    assert start_with_budget(1, slowAtBucket="prompt:1", slowSeconds=100).prompt.warmed == 1


async def test_out_of_memory_in_compilation_leaves_one_bucket_cold() -> None:
    report = start(sim_config({"oomAtCompile": "prompt:2"}))
    assert (report.prompt.planned, report.prompt.warmed, report.prompt.captured) == (4, 3, 3)
    assert [skipped.bucket for skipped in report.skipped] == [(1, 256, 0)]
    assert report.decode.captured == report.decode.planned


async def test_cold_bucket_is_removed_from_the_capture_estimate() -> None:
    clock = VirtualClock()
    board = ReportBoard("0" * 64, clock)
    seen: list[float | None] = []

    class Watched(SimEngine):
        def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
            seen.append(board.report().eta_seconds)
            return super().capture(phase, bucket)

    config = sim_config({"compileSeconds": 2, "captureSeconds": 1, "oomAtCompile": "prompt:2"})
    start_engine(config, board, threading.Event(), lambda config: Watched(config, clock.sleep), clock)
    assert len(seen) == 9
    assert seen[-3:] == [3, 2, 1]


async def test_restarted_container_loads_recipes_and_estimates_their_duration(tmp_path: Path) -> None:
    script = {"compileSeconds": 6.6, "captureSeconds": 1}
    config = sim_config(script).model_copy(update={"recipe_cache_dir": str(tmp_path)})
    first, second = VirtualClock(), VirtualClock()
    assert start_on_virtual_clock(config, first).prompt.cached == 0
    assert first.now == pytest.approx(10 * 6.6 + 10)
    assert start_on_virtual_clock(config, second).prompt.cached == 4
    assert second.now == pytest.approx(10 * 2.3 + 10)
    assert report_with_plan(config).eta_seconds == pytest.approx(10 * 2.3 + 10)


async def test_unusable_journal_is_a_warning_of_the_report(tmp_path: Path) -> None:
    cache = tmp_path / "recipes"
    cache.write_text("a file in place of the folder")
    config = sim_config({"compileSeconds": 1}).model_copy(update={"recipe_cache_dir": str(cache)})
    warnings = start_on_virtual_clock(config, VirtualClock()).warnings
    assert any("The warm-up journal" in warning and "cannot be used" in warning for warning in warnings)


async def test_recipes_of_an_earlier_plan_are_used_for_shared_shapes(tmp_path: Path) -> None:
    cache = {"recipe_cache_dir": str(tmp_path)}
    start_on_virtual_clock(sim_config({"compileSeconds": 6.6}).model_copy(update=cache), VirtualClock())
    wider = sim_config({"compileSeconds": 6.6}, max_num_batched_tokens=1024, max_model_len=1024)
    ranges = wider.bucketing.prompt.model_copy(update={"query": linear(128, 640)})
    policy = wider.bucketing.model_copy(update={"prompt": ranges})
    report = start_on_virtual_clock(wider.model_copy(update={**cache, "bucketing": policy}), VirtualClock())
    assert (report.prompt.planned, report.prompt.cached) == (5, 4)


async def test_sigterm_during_the_sampler_ends_warmup() -> None:
    stop = threading.Event()
    engine = SimEngine(sim_config())
    sampled: list[int] = []

    def warm_sampler(batch_size: int, progress: Progress) -> None:
        sampled.append(batch_size)
        stop.set()
        progress()

    engine.warm_sampler = warm_sampler  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        start_engine(sim_config(), ReportBoard("0" * 64), stop, lambda _: engine)
    assert sampled == [0]


async def test_report_of_a_simulation_has_a_warning() -> None:
    report = start(sim_config())
    assert report.simulated
    assert report.warnings[0].startswith("This is a simulation without a model. ")


async def test_skipped_buckets_are_counted_and_listed_up_to_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = sim_config({"graphBytesPerToken": 2**40}, max_model_len=8192, max_num_batched_tokens=8192)
    ranges = config.bucketing.prompt.model_copy(update={"query": BucketingRangeSettings(min=128, step=8, max=8192)})
    policy = config.bucketing.model_copy(update={"prompt": ranges})
    report = start(config.model_copy(update={"bucketing": policy}))
    assert report.prompt.planned > 1000
    assert report.skipped_total == report.prompt.planned - report.prompt.captured
    assert len(report.skipped) == len([line for line in caplog.messages if " was left out: " in line]) == MAX_SKIPPED
    assert f"{report.skipped_total} buckets were left out. Only the first {MAX_SKIPPED} are logged." in caplog.messages
    assert len(report.model_dump_json(by_alias=True)) < MAX_REPORT_BYTES


async def test_report_forecasts_only_the_running_bucket() -> None:
    clock = VirtualClock()
    board = ReportBoard("0" * 64, clock)
    seen: list[tuple[object, float | None]] = []

    class Watched(SimEngine):
        def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
            now = board.report().prompt
            if phase is BucketPhase.PROMPT:
                seen.append((now.current == bucket, now.forecast_seconds))
            super().warm(phase, bucket)

    config = sim_config({"compileSeconds": 2})
    start_engine(config, board, threading.Event(), lambda config: Watched(config, clock.sleep), clock)
    assert seen == [(True, None), (True, None), (True, None), (True, 2.0)]
    assert board.report().prompt.forecast_seconds is None
