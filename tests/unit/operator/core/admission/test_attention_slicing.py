"""Settings of padding-aware buckets that vLLM's plugin rejects at load time."""

from typing import Any

import pytest

from gaudi_operator.core.admission.engine_settings import check_slicing_settings
from gaudi_operator.core.inference import Inference
from gaudi_runtime.errors import Problem
from tests.support.builders import Object, merged
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import CARD, inference, resource
from tests.unit.operator.core.stories import condition, pod_names


def inference_with(base: Object, **change: Any) -> Inference:
    return inference(**merged(base, change))


PADDED: Object = {
    "accelerator": CARD,
    "model": {"maxModelLen": 2048},
    "engine": {"name": "vllm", "blockSize": 128},
    "bucketing": {"strategy": "PaddingAware"},
}
SWITCH = "or set spec.engine.settings VLLM_HPU_FSDPA_SLICE_ENABLED to false."
LOADS = "With strategy PaddingAware, vLLM's plugin splits attention from this length on."


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"engine": {"maxNumBatchedTokens": 1023}},
            f"spec.engine.maxNumBatchedTokens is 1023, but must be at least 1024. {LOADS} Raise the value, {SWITCH}",
        ),
        (
            {"model": {"maxModelLen": 16384}, "engine": {"blockSize": 2048, "maxNumBatchedTokens": 2048}},
            f"spec.engine.maxNumBatchedTokens is 2048, but must be at least 2049. {LOADS} Raise the value, {SWITCH}",
        ),
        (
            {"engine": {"blockSize": 2048, "settings": {"VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD": "1024"}}},
            f"spec.engine.settings VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD is 1024, but must be at least 2049. {LOADS} "
            f"Raise the value, {SWITCH}",
        ),
        (
            {"engine": {"blockSize": 512, "maxNumBatchedTokens": 2044}},
            "spec.engine.settings VLLM_PROMPT_QUERY_BUCKET_PAD_MAX (default: a quarter of maxNumBatchedTokens) is "
            f"below blockSize 512. vLLM's plugin splits attention by this value and would not load. Raise the value, "
            f"{SWITCH}",
        ),
        (
            {"engine": {"settings": {"VLLM_PROMPT_QUERY_BUCKET_PAD_MAX": 127}}},
            "spec.engine.settings VLLM_PROMPT_QUERY_BUCKET_PAD_MAX (default: a quarter of maxNumBatchedTokens) is "
            f"below blockSize 128. vLLM's plugin splits attention by this value and would not load. Raise the value, "
            f"{SWITCH}",
        ),
    ],
    ids=["few tokens", "large blocks", "threshold of one's own", "quarter of the tokens", "little padding"],
)
def test_spec_failing_a_plugin_assertion_is_refused(change: Object, sentence: str) -> None:
    assert check_slicing_settings(inference_with(PADDED, **change)) == Problem("PlanImpossible", sentence)


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"maxNumBatchedTokens": 1024}},
        {"engine": {"blockSize": 512, "maxNumBatchedTokens": 2045}},
        {"engine": {"settings": {"VLLM_PROMPT_QUERY_BUCKET_PAD_MAX": 128}}},
        {"bucketing": {"strategy": "Linear"}, "engine": {"maxNumBatchedTokens": 512}},
        {"engine": {"maxNumBatchedTokens": 512, "settings": {"VLLM_HPU_FSDPA_SLICE_ENABLED": "False"}}},
        {"engine": {"maxNumBatchedTokens": 512, "settings": {"VLLM_PROMPT_USE_FUSEDSDPA": "0"}}},
        {"engine": {"maxNumBatchedTokens": 512, "settings": {"VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD": "1024"}}},
        {"engine": {"maxNumBatchedTokens": 512, "name": "sim"}},
        {"accelerator": {"generation": "none", "deviceMemory": "1Gi"}, "engine": {"maxNumBatchedTokens": 512}},
    ],
    ids=str,
)
def test_loadable_padding_aware_buckets_are_not_refused(change: Object) -> None:
    assert check_slicing_settings(inference_with(PADDED, **change)) is None


def test_new_revision_with_these_settings_creates_no_pod() -> None:
    cluster = Cluster(resource(**merged(PADDED, {"engine": {"maxNumBatchedTokens": 512}})))
    cluster.settle()
    assert pod_names(cluster) == []
    assert condition(cluster, "Stalled") == ("True", "PlanImpossible")
