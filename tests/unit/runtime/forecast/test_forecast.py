"""The figures of a forecast with their sources, its notes, and the problems of a deployment that cannot start."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaudi_runtime.catalog.cards import CARDS, GAUDI2, GAUDI3, NONE, card_named
from gaudi_runtime.catalog.figure import Confidence, Figure
from gaudi_runtime.catalog.models.known import known_models
from gaudi_runtime.catalog.models.validated import validated_models
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import (
    CaptureOrder,
    ExecutionMode,
    ParallelismConfig,
    QuantizationMethod,
)
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.forecast.forecast import CONTIGUOUS_OFF, forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Forecast, MemoryForecast, PhaseForecast, Reason
from tests.unit.runtime.forecast.deployments import GIB, LLAMA, LOGGED, reference_with, shape_of

SEVENTY = shape_of("meta-llama/Llama-3.1-70B")


def figures(answer: Forecast) -> list[Figure]:
    parts = [answer.memory, answer.prompt, answer.decode]
    inside = [value for part in parts if part for value in vars(part).values()]
    return [value for value in [*inside, answer.kv_blocks, answer.warmup_seconds] if isinstance(value, Figure)]


def reasons(answer: Forecast) -> list[Reason]:
    return [problem.reason for problem in answer.problems]


def test_every_figure_names_its_source() -> None:
    assert all(figure.source for figure in figures(forecast(LOGGED, LLAMA, GAUDI2)))


def test_forecast_is_marked_as_an_estimate() -> None:
    assert forecast(LOGGED, LLAMA, GAUDI2).notes[0].startswith("All figures are estimates")


def test_rates_of_the_measured_model_have_confidence_measured() -> None:
    answer = forecast(LOGGED, LLAMA, GAUDI2)
    assert answer.prompt is not None
    assert answer.prompt.all_graph_bytes is not None
    assert answer.prompt.all_graph_bytes.confidence is Confidence.MEASURED


def test_rates_for_another_model_are_scaled_with_a_note() -> None:
    answer = forecast(LOGGED, shape_of("Qwen/Qwen2.5-14B"), GAUDI2)
    assert answer.warmup_seconds is not None
    assert answer.warmup_seconds.confidence is Confidence.SCALED
    assert answer.prompt is not None
    assert answer.prompt.compile_seconds is not None
    assert "scaled by the number of layers (times 1.5)" in answer.prompt.compile_seconds.source


def test_tensor_parallelism_reduces_the_bytes_of_prompt_graphs() -> None:
    one, two = (
        forecast(replace(LOGGED, parallelism=ParallelismConfig(tensor=tensor)), LLAMA, GAUDI2).prompt
        for tensor in (1, 2)
    )
    assert one is not None
    assert two is not None
    assert one.all_graph_bytes is not None
    assert two.all_graph_bytes is not None
    assert two.all_graph_bytes.value / one.all_graph_bytes.value == pytest.approx((20_480 + 21_504) / (20_480 + 43_008))


def test_weights_that_do_not_fit_are_a_problem_with_figures() -> None:
    answer = forecast(LOGGED, SEVENTY, GAUDI2)
    assert reasons(answer) == [Reason.WEIGHTS_TOO_LARGE]
    assert answer.problems[0].message == (
        "the weights (about 131.42 GiB) and the workspace (about 0.97 GiB) leave no free memory on a card with "
        "94.62 GiB"
    )
    assert answer.plan is None


def test_seventy_billion_parameters_fit_on_two_gaudi_3() -> None:
    answer = forecast(replace(LOGGED, parallelism=ParallelismConfig(tensor=2)), SEVENTY, GAUDI3)
    assert answer.problems == ()


def test_memory_without_room_for_a_block_is_a_problem() -> None:
    assert reasons(forecast(reference_with(utilization=0.0), LLAMA, GAUDI2)) == [Reason.NO_KV_BLOCK]


def test_cache_smaller_than_one_sequence_is_a_problem() -> None:
    answer = forecast(reference_with(utilization=0.005), LLAMA, GAUDI2)
    assert reasons(answer) == [Reason.SEQUENCE_TOO_LONG]
    assert "maxModelLen = 2048 tokens needs 2048 KV blocks, but only about 1945 fit" in answer.problems[0].message


def test_heads_that_cannot_be_divided_are_a_problem() -> None:
    answer = forecast(replace(LOGGED, parallelism=ParallelismConfig(tensor=3)), LLAMA, GAUDI2)
    assert reasons(answer) == [Reason.PARALLELISM]


def test_plan_that_is_impossible_is_a_problem() -> None:
    inputs = replace(LOGGED, policy=BucketPolicy(strategy=Strategy.FILE, file="(1, 4096, 0)"))
    assert reasons(forecast(inputs, LLAMA, GAUDI2)) == [Reason.PLAN_IMPOSSIBLE]


def test_measured_blocks_replace_the_forecast() -> None:
    answer = forecast(replace(LOGGED, kv_blocks=1519), LLAMA, GAUDI2)
    assert (answer.kv_blocks.value, answer.kv_blocks.confidence) == (1519, Confidence.EXACT)


def test_plan_without_a_model_uses_assumed_blocks() -> None:
    answer = forecast(LOGGED, None, GAUDI2)
    assert answer.kv_blocks == Figure(8192, "enough for maxNumSeqs sequences of maxModelLen", Confidence.ASSUMED)
    assert answer.memory is None
    assert any("shape is unknown" in note for note in answer.notes)


def test_forecast_without_a_model_assumes_graph_bytes() -> None:
    prompt = forecast(LOGGED, None, GAUDI2).prompt
    assert prompt is not None
    assert (prompt.planned, prompt.captured_buckets, prompt.captured_percent) == (24, None, None)
    assert prompt.all_graph_bytes is not None
    assert prompt.all_graph_bytes.confidence is Confidence.ASSUMED


def test_forecast_on_a_cpu_has_only_memory_and_plan() -> None:
    answer = forecast(replace(LOGGED, device_memory=64 * GIB), LLAMA, NONE)
    assert answer.prompt == PhaseForecast(BucketPhase.PROMPT, 24)
    assert answer.warmup_seconds is None
    assert isinstance(answer.memory, MemoryForecast)
    assert any("Graph sizes and warm-up times on card" in note for note in answer.notes)


@pytest.mark.parametrize("mode", [ExecutionMode.LAZY, ExecutionMode.EAGER])
def test_forecast_of_modes_without_graphs_includes_only_compilation(mode: ExecutionMode) -> None:
    answer = forecast(replace(LOGGED, execution_mode=mode), LLAMA, GAUDI2)
    assert answer.prompt is not None
    assert answer.prompt.captured_buckets is None
    assert answer.warmup_seconds is not None
    assert answer.warmup_seconds.value == pytest.approx(29)


def test_graphs_of_torch_compile_have_no_bytes() -> None:
    answer = forecast(replace(LOGGED, execution_mode=ExecutionMode.TORCH_COMPILE), LLAMA, GAUDI3)
    for phase in (answer.prompt, answer.decode):
        assert phase is not None
        assert (phase.captured_buckets, phase.captured_at_best, phase.graph_bytes, phase.all_graph_bytes) == (None,) * 4
    assert any("The size of graphs is unknown until the first pod has measured graphs" in note for note in answer.notes)


def test_warm_up_seconds_of_torch_compile_are_an_assumed_range() -> None:
    found = forecast(replace(LOGGED, execution_mode=ExecutionMode.TORCH_COMPILE), LLAMA, GAUDI2).warmup_seconds
    assert found is not None
    assert found.least < found.most
    assert found.confidence is Confidence.ASSUMED


def test_disabled_warm_up_takes_zero_seconds() -> None:
    answer = forecast(reference_with(enabled=False), LLAMA, GAUDI2)
    assert answer.warmup_seconds is not None
    assert answer.warmup_seconds.value == 0
    assert "warm-up is off" in answer.warmup_seconds.source


def test_window_layers_are_counted_in_full_with_a_note() -> None:
    assert any("use a sliding window" in note for note in forecast(LOGGED, shape_of("google/gemma-2-9b"), GAUDI2).notes)


def test_windows_in_some_layers_are_planned_without_contiguous_blocks() -> None:
    gemma = shape_of("google/gemma-2-9b")
    scattered = LOGGED.limits.model_copy(update={"contiguous_paged_attention": False})
    found = forecast(LOGGED, gemma, GAUDI2)
    assert found.plan == forecast(replace(LOGGED, limits=scattered), gemma, GAUDI2).plan
    assert CONTIGUOUS_OFF in found.notes


def test_note_names_the_ignored_vision_warm_up() -> None:
    left_out = "The workspace does not include the memory for images"
    assert any(left_out in note for note in forecast(LOGGED, shape_of("Qwen/Qwen2.5-VL-7B-Instruct"), GAUDI3).notes)
    assert not any(left_out in note for note in forecast(LOGGED, LLAMA, GAUDI3).notes)


def test_qwen_vl_fits_on_one_gaudi_3() -> None:
    """Parameters take two bytes. A KV block has 128 tokens with 4 heads of size 128 in 28 layers."""
    memory = forecast(reference_with(block_size=128), shape_of("Qwen/Qwen2.5-VL-7B-Instruct"), GAUDI3).memory
    assert memory is not None
    assert memory.weights.value == 2 * 8_292_166_656
    assert memory.block.value == 2 * 128 * 4 * 128 * 2 * 28


def test_note_names_the_ignored_time_budget() -> None:
    assert any(
        "timeBudgetSeconds = 60" in note
        for note in forecast(reference_with(time_budget_seconds=60), LLAMA, GAUDI2).notes
    )


def test_note_names_the_covering_set_of_a_time_budget() -> None:
    orders = {"prompt_order": CaptureOrder.MIN_TOKENS, "decode_order": CaptureOrder.MAX_BS}
    covered = "warm-up first compiles 1 prompt bucket and 1 decode bucket"
    assert any(covered in note for note in forecast(reference_with(time_budget_seconds=60), LLAMA, GAUDI2).notes)
    logged = forecast(reference_with(time_budget_seconds=60, **orders), LLAMA, GAUDI2).notes
    assert not any("first, which hold every shape" in note for note in logged)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(known_models())),
    st.sampled_from(sorted(CARDS)),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 2**38),
)
def test_memory_parts_of_any_forecast_are_consistent(
    repository: str, card: str, utilization: float, share: float, ratio: float, tensor: int, memory: int
) -> None:
    inputs = reference_with(
        utilization=utilization,
        graph_memory_share=share,
        prompt_ratio=ratio,
        parallelism=ParallelismConfig(tensor=tensor),
        device_memory=memory,
    )
    answer = forecast(inputs, shape_of(repository), CARDS[card])
    assume(answer.memory is not None)
    assert answer.memory is not None
    assert answer.memory.usable.value == answer.memory.graphs.value + answer.memory.kv_cache.value
    assert answer.memory.kv_blocks.value * answer.memory.block.value <= answer.memory.kv_cache.value
    for phase in (answer.prompt, answer.decode):
        if phase and phase.captured_buckets is not None and phase.captured_at_best is not None:
            assert len(phase.captured_buckets) <= phase.captured_at_best <= phase.planned


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(Strategy),
    st.sampled_from([*CARDS]),
    st.sampled_from([None, "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V2-Lite"]),
    st.integers(1, 40_000),
    st.integers(1, 512),
    st.integers(1, 8),
    st.integers(1, 40_000),
    st.sampled_from([1, 16, 128]),
    st.booleans(),
)
def test_any_deployment_is_forecast_or_has_a_problem(
    strategy: Strategy,
    card: str,
    repository: str | None,
    length: int,
    seqs: int,
    prefills: int,
    tokens: int,
    block: int,
    prefix: bool,
) -> None:
    inputs = reference_with(
        policy=BucketPolicy(strategy=strategy),
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_prefill_seqs=prefills,
        max_num_batched_tokens=tokens,
        block_size=block,
        prefix_caching=prefix,
    )
    answer = forecast(inputs, shape_of(repository) if repository else None, CARDS[card])
    assert (answer.plan is None) == (answer.prompt is None)
    assert answer.plan or answer.problems


def test_every_validated_model_fits_on_its_cards() -> None:
    failed = {}
    for row in validated_models():
        shape = shape_of(row.model)
        length = min(4096, shape.max_length or 4096)
        inputs = ForecastInputs(
            policy=BucketPolicy(strategy=Strategy.LINEAR),
            limits=Limits(max_model_len=length, max_num_seqs=32, max_num_batched_tokens=length),
            execution_mode=ExecutionMode.TORCH_COMPILE,
            parallelism=ParallelismConfig(tensor=min(row.tensor_sizes)),
            quantization=QuantizationMethod.FP8 if "fp8" in row.datatypes and not shape.quantization else None,
        )
        if problems := forecast(inputs, shape, card_named(row.card)).problems:
            failed[row.model] = problems[0].message
    assert failed == {}
