"""A simulation captures exactly the graphs that `gaudi-plan forecast` names."""

import threading
from typing import Any

import pytest

from gaudi_operator.cli.plan.forecast_target import forecast_target
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.catalog.cards import card_named
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import inputs_from_config
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.support.forecasts import seed
from tests.unit.operator.core.resources import inference

QWEN = {"card": "gaudi3", "model": "Qwen/Qwen2.5-7B", "VLLM_CONTIGUOUS_PA": "true"}
LONG = {"maxNumBatchedTokens": 8192, "maxNumSeqs": 32, "blockSize": 128}
CASES: dict[str, dict[str, Any]] = {
    "the seeds": {},
    "more for prompts": {"engine": {"settings": {"VLLM_GRAPH_PROMPT_RATIO": "0.9"}}},
    "little for graphs": {"warmup": {"graphMemoryPercent": 2}},
    "nothing for graphs": {"warmup": {"graphMemoryPercent": 0}},
    "largest batch first": {"engine": {"settings": {"VLLM_GRAPH_PROMPT_STRATEGY": "max_bs"}}},
    "half a card": {"accelerator": {"generation": "none", "deviceMemory": "40Gi"}},
    "another model on another card": {"engine": {**LONG, "settings": QWEN}, "bucketing": {"strategy": "Exponential"}},
}


async def simulate(spec: dict[str, Any]) -> WarmupReport:
    """Return the report of a simulated pod with this spec after its warm-up."""
    config = runtime_config(inference(**spec)).model_copy(update={"recipe_cache_dir": None})
    board = ReportBoard("p" * 64)
    start_engine(config, board, threading.Event())
    return board.report()


@pytest.mark.parametrize("case", CASES)
async def test_simulation_captures_the_forecast_graphs(case: str) -> None:
    spec = seed(**CASES[case])
    spec["engine"]["settings"] |= {"timeScale": "0"}
    resource = inference(**spec)
    target = forecast_target(resource.spec)
    assert target is not None
    found = forecast(inputs_from_config(runtime_config(resource)), known_shape(target.model), card_named(target.card))
    report = await simulate(spec)
    assert report.memory is not None
    assert report.memory.kv_blocks == int(found.kv_blocks.value)
    for phase, reported in ((found.prompt, report.prompt), (found.decode, report.decode)):
        assert phase is not None
        assert phase.captured_buckets is not None
        assert phase.graph_bytes is not None
        assert (reported.planned, reported.captured) == (phase.planned, len(phase.captured_buckets))
        assert reported.graph_bytes == round(phase.graph_bytes.value)
