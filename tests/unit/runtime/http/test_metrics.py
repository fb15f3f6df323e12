"""The series of /metrics by phase, bucket and stage."""

from gaudi_runtime.contract.report import (
    PhaseProgressReport,
    VisionProgressReport,
)
from gaudi_runtime.http.metrics import MetricSources, new_metrics_registry
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import served


async def test_batches_have_series_by_phase_and_bucket() -> None:
    async with served(sim_config()) as api:
        await api.openai.completions.create(model="echo", prompt="x" * 100, max_tokens=10)
        board = ReportBoard("0" * 64)
        value = new_metrics_registry(MetricSources(board.report, api.engine)).get_sample_value
        assert value("gaudi_graph_hits_total", {"phase": "decode"}) == 10
        assert value("gaudi_batch_tokens_total", {"phase": "prompt", "size": "real"}) == 100
        assert value("gaudi_batch_tokens_total", {"phase": "prompt", "size": "padded"}) == 128
        bucket = {"phase": "prompt", "bucket": "1x128x0"}
        assert value("gaudi_bucket_batches_total", {**bucket, "graph": "warm"}) == 1
        assert value("gaudi_bucket_batches_total", {**bucket, "graph": "cold"}) == 0


async def test_plan_of_many_buckets_has_no_series_by_bucket() -> None:
    async with served(sim_config()) as api:
        await api.openai.completions.create(model="echo", prompt="x" * 100, max_tokens=10)
        board = ReportBoard("0" * 64)
        board.update(prompt=PhaseProgressReport(planned=500), decode=PhaseProgressReport(planned=13))
        families = {
            family.name: family.samples
            for family in new_metrics_registry(MetricSources(board.report, api.engine)).collect()
        }
    assert families["gaudi_bucket_batches"] == []


async def test_metrics_of_the_vision_tower_have_the_phase_vision() -> None:
    board = ReportBoard("0" * 64)
    board.update(vision=VisionProgressReport(planned=4, warmed=3))
    async with served(sim_config()) as api:
        api.engine.counters.add_rows([], [["a", True, 5, 0], ["b", False, 2, 1]])
        registry = new_metrics_registry(MetricSources(board.report, api.engine))
    label = {"phase": "vision"}
    names = ("gaudi_graph_hits_total", "gaudi_cold_shapes_total", "gaudi_recompiles_since_ready_total")
    assert [registry.get_sample_value(name, label) for name in names] == [5, 2, 1]
    states = ({**label, "state": each} for each in ("planned", "warmed"))
    assert [registry.get_sample_value("gaudi_buckets", each) for each in states] == [4, 3]


async def test_metrics_of_steps_have_the_part_that_compiled() -> None:
    board = ReportBoard("0" * 64)
    async with served(sim_config()) as api:
        parts = [["forward", "", 1, 4.0], ["sampler", "top_k", 2, 1.0], ["sampler", "logprobs", 1, 2.0]]
        api.engine.counters.add_rows([], step_compiles=parts)
        registry = new_metrics_registry(MetricSources(board.report, api.engine))
    name = "gaudi_step_compile_seconds_total"
    seconds = [registry.get_sample_value(name, {"part": part}) for part in ("forward", "sampler", "other")]
    counts = [
        registry.get_sample_value("gaudi_recompiles_since_ready_total", {"phase": part})
        for part in ("sampler", "other")
    ]
    assert (seconds, counts) == ([4.0, 3.0, 0.0], [3.0, 0.0])
