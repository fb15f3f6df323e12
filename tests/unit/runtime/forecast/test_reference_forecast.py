"""Memory and times of logs 000 and 002 (Llama 3.1 8B, one Gaudi 2), forecast from model, card and settings alone."""

import json
from pathlib import Path

import pytest

from gaudi_runtime.catalog.cards import GAUDI2
from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.result import Forecast, MemoryForecast, PhaseForecast
from tests.unit.runtime.forecast.deployments import GIB, LLAMA, reference_with

LOGS = json.loads((Path(__file__).parents[3] / "data" / "reference_plans.json").read_text())


@pytest.fixture(scope="module", params=[0.3, 0.5], ids=["ratio-0.3", "ratio-0.5"])
def logged(request: pytest.FixtureRequest) -> Forecast:
    return forecast(reference_with(prompt_ratio=request.param), LLAMA, GAUDI2)


def memory(forecast: Forecast) -> MemoryForecast:
    assert forecast.memory is not None
    return forecast.memory


def prompt(forecast: Forecast) -> PhaseForecast:
    assert forecast.prompt is not None
    return forecast.prompt


def decode(forecast: Forecast) -> PhaseForecast:
    assert forecast.decode is not None
    return forecast.decode


def test_seed_000_leaves_79_16_gib_free_after_the_profile_run(logged: Forecast) -> None:
    assert memory(logged).free.value / GIB == pytest.approx(79.16, rel=0.001)


def test_seed_000_splits_usable_memory_as_logged(logged: Forecast) -> None:
    parts = [part.value / GIB for part in (memory(logged).usable, memory(logged).graphs, memory(logged).kv_cache)]
    assert parts == pytest.approx([39.58, 15.83, 23.75], rel=0.001)


def test_seed_000_has_1519_blocks_of_128_tokens() -> None:
    blocks = memory(forecast(reference_with(block_size=128), LLAMA, GAUDI2)).kv_blocks.value
    assert blocks == pytest.approx(1519, abs=1)


def test_two_seeds_plan_24_prompt_and_48_decode_buckets(logged: Forecast) -> None:
    assert (prompt(logged).planned, decode(logged).planned) == (24, 48)


def test_two_seeds_capture_15_of_24_prompt_graphs(logged: Forecast) -> None:
    captured = prompt(logged).captured_buckets
    assert captured is not None
    assert [list(bucket[:2]) for bucket in sorted(captured)] == LOGS["captured_prompt"]
    assert prompt(logged).captured_percent == 62


def test_seeds_000_and_002_capture_all_decode_graphs(logged: Forecast) -> None:
    assert decode(logged).captured_percent == 100


def test_seeds_000_and_002_prompt_graphs_take_13_94_gib(logged: Forecast) -> None:
    graph_bytes = prompt(logged).graph_bytes
    assert graph_bytes is not None
    assert graph_bytes.value / GIB == pytest.approx(13.94, abs=0.005)


def test_seed_000_decode_graphs_take_161_9_mib(logged: Forecast) -> None:
    graph_bytes = decode(logged).graph_bytes
    assert graph_bytes is not None
    assert graph_bytes.value / 2**20 == pytest.approx(161.9, abs=0.05)


def test_seed_000_warm_up_takes_49_seconds(logged: Forecast) -> None:
    assert logged.warmup_seconds is not None
    assert logged.warmup_seconds.value == pytest.approx(49, abs=1.5)


def test_seed_003_warm_up_may_take_three_times_as_long(logged: Forecast) -> None:
    assert logged.warmup_seconds is not None
    assert logged.warmup_seconds.most == pytest.approx(24 * 1.83 + 48 * 2.61, rel=0.1)


def test_best_case_of_seed_000_captures_all_24_prompt_graphs(logged: Forecast) -> None:
    assert prompt(logged).captured_at_best == 24


def test_seed_000_has_no_problem(logged: Forecast) -> None:
    assert logged.problems == ()


@pytest.fixture(scope="module")
def second_log() -> Forecast:
    """Return the forecast of a log with 24 prompt buckets, one decode bucket, utilization 0.9 and share 0.1.

    No rate was derived from this log. Source: vllm-gaudi's guide to quantization and inference, Logs Interpretation.
    """
    text = "([1, 2, 4], [128, 256, 384, 512, 640, 768, 896, 1024], 0)\n(4, 1, 4)"
    policy = BucketPolicy(strategy=Strategy.FILE, file=text)
    return forecast(
        reference_with(policy=policy, block_size=128, utilization=0.9, graph_memory_share=0.1), LLAMA, GAUDI2
    )


def test_forecast_of_4107_blocks_is_within_a_thousandth(second_log: Forecast) -> None:
    assert memory(second_log).kv_blocks.value == pytest.approx(4107, rel=0.001)


def test_second_log_has_7_13_gib_of_graphs(second_log: Forecast) -> None:
    assert memory(second_log).graphs.value / GIB == pytest.approx(7.13, rel=0.001)


def test_logged_32_seconds_are_in_the_forecast_range(second_log: Forecast) -> None:
    assert (prompt(second_log).planned, decode(second_log).planned) == (24, 1)
    assert second_log.warmup_seconds is not None
    assert second_log.warmup_seconds.least < 32 < second_log.warmup_seconds.most
