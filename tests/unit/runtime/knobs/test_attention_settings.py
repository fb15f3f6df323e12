"""How settings determine the attention of prompts with a cached context, and the message about a broken bucket."""

from typing import Any

import pytest

from gaudi_runtime.buckets.attention_bias import FusedAttentionBias
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.knobs.attention_settings import fused_attention, why_attention_impossible
from tests.unit.runtime.knobs.configs import vllm_config

PADDED = {"strategy": "paddingAware"}
LONG = {"maxModelLen": 131072, "maxNumSeqs": 1, "maxNumBatchedTokens": 8192, "prefixCaching": True}
NAN = Bucket(1, 8192, 960)


def settings(**values: str) -> dict[str, Any]:
    return {"engine": {"settings": values}}


def test_ranges_without_padding_are_never_sliced() -> None:
    assert fused_attention(vllm_config(), {}) == FusedAttentionBias(element_bytes=2, sliced_from=None)


@pytest.mark.parametrize(
    ("tokens", "change", "sliced_from"),
    [
        (2048, {}, 2048),
        (16384, {}, 8192),
        (16384, {"VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD": "4096"}, 4096),
        (2048, {"VLLM_HPU_FSDPA_SLICE_ENABLED": "false"}, None),
    ],
    ids=str,
)
def test_padding_aware_buckets_are_sliced(tokens: int, change: dict[str, str], sliced_from: int | None) -> None:
    limits = {"maxModelLen": 16384, "maxNumBatchedTokens": tokens}
    found = fused_attention(vllm_config(bucketing=PADDED, limits=limits, **settings(**change)), {})
    assert found == FusedAttentionBias(sliced_from=sliced_from)


def test_attention_is_not_sliced_with_neural_compressor() -> None:
    quantized = {"quantization": {"method": "inc", "configFile": "/q.json"}}
    assert fused_attention(vllm_config(bucketing=PADDED, model=quantized), {}) == FusedAttentionBias()


def test_float32_has_a_bias_of_four_bytes() -> None:
    assert fused_attention(vllm_config(model={"dtype": "float32"}), {}) == FusedAttentionBias(element_bytes=4)


@pytest.mark.parametrize(
    "sections",
    [
        settings(VLLM_HPU_FSDPA_Q_TILE_ENABLE="true"),
        settings(VLLM_PROMPT_USE_FUSEDSDPA="0"),
        settings(VLLM_PROMPT_USE_FLEX_ATTENTION="1"),
        {"engine": {"device": "cpu", "executionMode": "torchCompile"}},
    ],
    ids=str,
)
def test_other_attention_settings_have_no_bias_limit(sections: dict[str, Any]) -> None:
    assert fused_attention(vllm_config(**sections), {}) is None


def test_tile_variable_in_the_pod_environment_is_read() -> None:
    assert fused_attention(vllm_config(), {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "True"}) is None


def test_tile_setting_is_ignored_by_a_release_without_tiles() -> None:
    tiled = vllm_config(**settings(VLLM_HPU_FSDPA_Q_TILE_ENABLE="true"))
    assert fused_attention(tiled, {}, can_tile=False) == FusedAttentionBias()


def message_for(config: RuntimeConfig) -> str | None:
    return why_attention_impossible([Bucket(1, 128, 1), NAN], config, fused_attention(config, {}), "spec.")


def test_message_names_the_bucket_and_the_remedy() -> None:
    assert message_for(vllm_config(limits=LONG)) == (
        "prompt bucket (1, 8192, 960) has an attention bias of 2147483648 bytes for each prompt. With 2147483648 or "
        "more bytes, the fused attention kernel returns NaN without an error (measured on Gaudi 3). Lower "
        "spec.engine.maxNumBatchedTokens to 7680, or set spec.bucketing.strategy to PaddingAware, which computes "
        "attention in slices, or use an image with vllm-gaudi 0.30.0 and set VLLM_HPU_FSDPA_Q_TILE_ENABLE to true in "
        "spec.engine.settings"
    )


def test_remedy_for_a_file_is_to_remove_the_bucket() -> None:
    file = {"strategy": "file", "file": "(1, 8192, 960)"}
    assert "to 7680 and remove the bucket from spec.bucketing.file, or" in str(
        message_for(vllm_config(limits=LONG, bucketing=file))
    )


def test_message_for_unsplit_prompts_advises_chunked_prefill() -> None:
    whole = message_for(vllm_config(limits=LONG, engine={"chunkedPrefill": False}))
    assert "Set spec.engine.chunkedPrefill to true and lower spec.engine.maxNumBatchedTokens" in str(whole)


def test_slicing_is_not_advised_to_neural_compressor() -> None:
    quantized = {"quantization": {"method": "inc", "configFile": "/q.json"}}
    assert "PaddingAware" not in str(message_for(vllm_config(limits=LONG, model=quantized)))


def test_bucket_that_is_sliced_is_not_reported() -> None:
    assert message_for(vllm_config(limits=LONG, bucketing=PADDED)) is None
