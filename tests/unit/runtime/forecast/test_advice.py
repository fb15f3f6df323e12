"""The changed settings that a forecast advises for a deployment that does not fit."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gaudi_runtime.catalog.cards import CARDS, GAUDI2, NONE
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import ParallelismConfig, QuantizationMethod
from gaudi_runtime.forecast.advice import SERVE_ANYWAY, Setting, adjustable_settings, advise
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.thresholds import Thresholds, fits
from tests.unit.runtime.forecast.deployments import GIB, LLAMA, LOGGED, reference_with, shape_of

ROOM = Thresholds(0, 0)


def advice(inputs: ForecastInputs, shape: ModelShape = LLAMA, thresholds: Thresholds | None = None) -> str:
    return ", or ".join(change.text for change in advise(inputs, shape, GAUDI2, thresholds or Thresholds()))


def setting_of(text: str, inputs: ForecastInputs, shape: ModelShape) -> tuple[Setting, int]:
    """Return the setting that the advice `text` changes, and the index of its new value."""
    return next(
        (setting, step)
        for setting in adjustable_settings(inputs, shape)
        for step, value in enumerate(setting.new_values)
        if setting.describe_change(value) == text
    )


def test_deployment_that_fits_needs_no_advice() -> None:
    assert advice(LOGGED, thresholds=Thresholds(62, 100)) == ""


def test_seed_000_needs_62_percent_or_smaller_prompt_batches() -> None:
    """Buckets of at most 1535 tokens take 13.94 GiB (9984 tokens). With 1536, they would take 16.1 of 15.85 GiB."""
    assert advice(LOGGED) == (
        "lower readiness.minCapturedPromptPercent to 62, or lower engine.maxNumBatchedTokens to 1535, "
        f"or lower model.maxModelLen to 639, or {SERVE_ANYWAY.text}"
    )


def test_seed_000_with_graph_sizes_of_next_release_fits() -> None:
    assert advice(LOGGED, thresholds=Thresholds(at_best=True)) == ""


def test_missing_memory_for_graphs_advises_a_larger_share() -> None:
    """All graphs take 45.2 GiB. A share of 64 % of 71.26 GiB is 45.6 GiB."""
    assert "raise warmup.graphMemoryPercent to 64" in advice(reference_with(utilization=0.9, graph_memory_share=0.6))


def test_cache_too_small_for_a_sequence_has_two_advices() -> None:
    assert advice(reference_with(utilization=0.005), thresholds=ROOM) == (
        "raise engine.deviceMemoryUtilizationPercent to 1, or lower warmup.graphMemoryPercent to 36, "
        "or lower model.maxModelLen to 1945"
    )


def test_model_larger_than_a_card_advises_more_cards() -> None:
    assert advice(LOGGED, shape_of("meta-llama/Llama-3.1-70B"), ROOM) == "raise parallelism.tensor to 2"


def test_advised_numbers_of_cards_divide_the_heads() -> None:
    """Qwen 2.5 7B has 28 heads, which can be divided by 2 and by 4."""
    tensor = next(
        setting
        for setting in adjustable_settings(LOGGED, shape_of("Qwen/Qwen2.5-7B"))
        if setting.field_path == "parallelism.tensor"
    )
    assert tensor.new_values == [2, 4]


def test_more_device_memory_is_advised_on_a_cpu() -> None:
    """The KV cache of 2048 tokens takes 0.25 GiB. With 17 GiB, 0.47 GiB are left; with 16 GiB, only 0.17 GiB."""
    changes = advise(replace(LOGGED, device_memory=15 * GIB), LLAMA, NONE, ROOM)
    assert changes[0].text.startswith("raise accelerator.deviceMemory to 17Gi")


@pytest.mark.parametrize("method", [None, *QuantizationMethod])
def test_fp8_cache_is_advised_only_with_scales_of_inc(method: QuantizationMethod | None) -> None:
    settings = adjustable_settings(replace(LOGGED, quantization=method), LLAMA)
    (cache,) = [each for each in settings if each.field_path == "model.kvCacheDtype"]
    assert list(cache.new_values) == (["fp8_inc"] if method is QuantizationMethod.INC else [])


def test_lower_model_length_also_lowers_default_batched_tokens() -> None:
    inputs = replace(reference_with(max_num_batched_tokens=2048, max_num_prefill_seqs=1), tokens_follow_length=True)
    length = next(
        setting for setting in adjustable_settings(inputs, LLAMA) if setting.field_path == "model.maxModelLen"
    )
    assert length.set(inputs, 1024).limits.max_num_batched_tokens == 1024


def test_threshold_is_advised_even_if_much_lower() -> None:
    assert "lower readiness.minCapturedPromptPercent to 16" in advice(reference_with(graph_memory_share=0.05))


def test_serve_anyway_is_not_advised_without_memory_for_weights() -> None:
    assert SERVE_ANYWAY.text not in advice(LOGGED, shape_of("meta-llama/Llama-3.1-70B"), ROOM)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "google/gemma-2-9b", "meta-llama/Llama-3.1-70B"]),
    st.sampled_from(["gaudi2", "gaudi3"]),
    st.sampled_from([1, 2]),
    st.floats(0.01, 1),
    st.floats(0, 0.9),
    st.integers(1, 32),
    st.integers(1, 64),
    st.integers(0, 100),
)
def test_advised_change_is_the_smallest_that_fits(
    repository: str, card: str, tensor: int, utilization: float, share: float, seqs: int, blocks: int, percent: int
) -> None:
    inputs = reference_with(
        block_size=128,
        utilization=utilization,
        graph_memory_share=share,
        max_num_seqs=seqs,
        max_num_prefill_seqs=1,
        max_model_len=blocks * 128,
        max_num_batched_tokens=blocks * 128,
        parallelism=ParallelismConfig(tensor=tensor),
    )
    shape, thresholds = shape_of(repository), Thresholds(percent, percent)
    changes = advise(inputs, shape, CARDS[card], thresholds)
    assume(changes)
    for change in changes:
        if change.inputs is None:
            continue
        assert fits(forecast(change.inputs, shape, CARDS[card]), thresholds)
        setting, step = setting_of(change.text, inputs, shape)
        less = setting.set(inputs, setting.new_values[step - 1]) if step else inputs
        assert not fits(forecast(less, shape, CARDS[card]), thresholds)
