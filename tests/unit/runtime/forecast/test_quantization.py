"""The forecast of a quantized model: its memory, its compile times, and the note if its format is assumed."""

from dataclasses import replace

import pytest

from gaudi_runtime.catalog.cards import GAUDI2
from gaudi_runtime.contract.config import (
    KvCacheDtype,
    QuantizationMethod,
)
from gaudi_runtime.forecast.forecast import forecast
from tests.unit.runtime.forecast.deployments import LLAMA, LOGGED, shape_of

SEVENTY = shape_of("meta-llama/Llama-3.1-70B")


def test_seventy_billion_parameters_in_fp8_fit_on_one_gaudi_2() -> None:
    answer = forecast(replace(LOGGED, quantization=QuantizationMethod.INC), SEVENTY, GAUDI2)
    assert answer.problems == ()


def test_quantization_format_of_awq_is_assumed_with_a_note() -> None:
    notes = forecast(replace(LOGGED, quantization=QuantizationMethod.AWQ), LLAMA, GAUDI2).notes
    assert notes[1] == "The awq format of the checkpoint is unknown. Weights of 4 bits are assumed."


@pytest.mark.parametrize("method", [None, QuantizationMethod.INC, QuantizationMethod.FP8])
def test_quantization_while_loading_adds_no_note(method: QuantizationMethod | None) -> None:
    assert len(forecast(replace(LOGGED, quantization=method), LLAMA, GAUDI2).notes) == 1


def test_compile_time_of_fp8_has_a_higher_upper_bound() -> None:
    prompt = forecast(replace(LOGGED, quantization=QuantizationMethod.FP8), LLAMA, GAUDI2).prompt
    assert prompt is not None
    assert prompt.compile_seconds is not None
    assert (prompt.compile_seconds.value, prompt.compile_seconds.most) == pytest.approx((13, 13 * 504 / 66))
    assert "504 s in FP8 and 66 s in 16 bits" in prompt.compile_seconds.source


def test_fp8_cache_has_twice_the_blocks() -> None:
    plain, fp8 = (
        forecast(replace(LOGGED, kv_cache_dtype=dtype), LLAMA, GAUDI2).kv_blocks.value
        for dtype in (KvCacheDtype.AUTO, KvCacheDtype.FP8_INC)
    )
    assert fp8 == pytest.approx(2 * plain, abs=1)
