"""A simulation captures exactly the estimated graphs, so its estimated shortfall is certain."""

import threading
from typing import Any

import pytest

from gaudi_operator.core.admission.spec_forecast import forecast_plan
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.support.forecasts import seed
from tests.unit.operator.core.resources import inference

QWEN = {"card": "gaudi3", "model": "Qwen/Qwen2.5-7B"}
LONG = {"maxNumBatchedTokens": 8192, "maxNumSeqs": 32, "blockSize": 128, "contiguousPagedAttention": True}
CASES: dict[str, dict[str, Any]] = {
    "the seeds": {},
    "more for prompts": {"warmup": {"promptGraphPercent": 90}},
    "little for graphs": {"warmup": {"graphMemoryPercent": 2}},
    "nothing for graphs": {"warmup": {"graphMemoryPercent": 0}},
    "largest batch first": {"warmup": {"promptOrder": "MaxBs"}},
    "half a card": {"accelerator": {"generation": "none", "deviceMemory": "40Gi"}},
    "another model on another card": {"engine": {**LONG, "simulation": QWEN}, "bucketing": {"strategy": "Exponential"}},
}


async def simulate(spec: dict[str, Any]) -> WarmupReport:
    """Return the report of a simulated pod with this spec after its warm-up."""
    config = runtime_config(inference(**spec)).model_copy(update={"recipe_cache_dir": None})
    board = ReportBoard("p" * 64)
    start_engine(config, board, threading.Event())
    return board.report()


@pytest.mark.parametrize("case", CASES)
async def test_simulation_captures_the_estimated_graphs(case: str) -> None:
    spec = seed(**CASES[case])
    spec["engine"]["simulation"] = {**spec["engine"]["simulation"], "timeScale": "0"}
    found = forecast_plan(inference(**spec))
    assert found is not None
    assert found.estimate is not None
    assert found.estimate.prompt is not None
    assert found.estimate.decode is not None
    report = await simulate(spec)
    assert report.memory is not None
    assert report.memory.kv_blocks == found.kv_blocks == found.estimate.kv_blocks
    assert (report.prompt.planned, report.decode.planned) == (found.prompt_buckets, found.decode_buckets)
    assert (report.prompt.captured, report.decode.captured) == (
        found.estimate.prompt.expected,
        found.estimate.decode.expected,
    )
    assert report.prompt.graph_bytes + report.decode.graph_bytes == found.estimate.graph_bytes
