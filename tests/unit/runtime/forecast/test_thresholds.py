"""Forecast of the gate: whether the expected graphs reach the minimum percentages, and the message."""

from dataclasses import replace

import pytest

from gaudi_runtime.catalog.cards import GAUDI2
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.thresholds import Thresholds, describe_gate, fits, shortfalls, uncheckable_thresholds
from tests.unit.runtime.forecast.deployments import LLAMA, LOGGED


def test_shortfall_names_count_percentage_and_threshold() -> None:
    problems = shortfalls(forecast(LOGGED, LLAMA, GAUDI2), Thresholds(80, 100))
    assert [problem.message for problem in problems] == [
        "about 15 of 24 prompt graphs (62 %) fit into the memory reserved for graphs (minimum 80 %)"
    ]


@pytest.mark.parametrize("percent", [0, 62])
def test_percentage_that_is_reached_is_no_shortfall(percent: int) -> None:
    assert shortfalls(forecast(LOGGED, LLAMA, GAUDI2), Thresholds(percent, 100)) == ()


def test_unknown_graphs_are_no_shortfall() -> None:
    assert fits(forecast(LOGGED, None, GAUDI2), Thresholds())


COMPILED = replace(LOGGED, execution_mode=ExecutionMode.TORCH_COMPILE)


def test_graphs_of_torch_compile_are_no_shortfall() -> None:
    """If graphs of torch.compile had the sizes of HPU graphs, 15 of 24 prompt graphs would fit."""
    found = forecast(COMPILED, LLAMA, GAUDI2)
    assert fits(found, Thresholds())
    assert uncheckable_thresholds(found, Thresholds(80, 0)) == {BucketPhase.PROMPT: 80}


@pytest.mark.parametrize("inputs", [LOGGED, replace(LOGGED, execution_mode=ExecutionMode.EAGER)])
def test_known_or_unneeded_graphs_have_a_verdict(inputs: ForecastInputs) -> None:
    assert uncheckable_thresholds(forecast(inputs, LLAMA, GAUDI2), Thresholds()) == {}


def test_gate_sentence_names_thresholds_and_remedies() -> None:
    assert describe_gate({BucketPhase.PROMPT: 80, BucketPhase.DECODE: 100}) == (
        "How many graphs fit is unknown until the first pod has measured them. The gate opens when the pod has "
        "captured 80 % of the prompt graphs and 100 % of the decode graphs. If fewer graphs fit, raise "
        "spec.warmup.graphMemoryPercent, lower spec.readiness.minCapturedPromptPercent or "
        "spec.readiness.minCapturedDecodePercent, or set "
        "spec.readiness.onShortfall to ServeAndWarn."
    )
