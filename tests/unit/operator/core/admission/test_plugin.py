"""Rules of vLLM's plugin that refuse new revisions: the token limit for graphs and the bucket assertions."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.admission.checks import first_violation
from gaudi_operator.core.admission.engine_settings import why_settings_are_ignored
from gaudi_operator.core.admission.plugin import plugin_violation
from gaudi_operator.core.resource import Inference
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.errors import Problem
from tests.support.builders import Object, merged
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference, resource
from tests.unit.operator.core.stories import condition, pod_names

CONTEXTS: Object = {
    "accelerator": CARD,
    "model": {"maxModelLen": 1024},
    "engine": {
        "name": "vllm",
        "executionMode": "HpuGraphs",
        "maxNumBatchedTokens": 512,
        "prefixCaching": True,
        "contiguousPagedAttention": False,
    },
    "bucketing": {
        "strategy": "Linear",
        "prompt": {"query": {"min": 128, "step": 128, "max": 512}, "context": {"min": 0, "step": 1, "max": 3}},
        "allowGaps": True,
    },
    "readiness": {"minCapturedPromptPercent": 100},
}


def inference_with(base: Object, **change: Any) -> Inference:
    return inference(**merged(base, change))


def test_contexts_above_the_plugins_limit_are_refused() -> None:
    assert plugin_violation(inference_with(CONTEXTS)) == Problem(
        "ThresholdsUnreachable",
        "spec.warmup.maxGraphTokens is left out, so the limit is maxNumBatchedTokens 512, which leaves 3 of 16 "
        "prompt buckets without a graph, but spec.readiness requires 100 % of prompt graphs. Raise maxGraphTokens, "
        "or lower spec.readiness.minCapturedPromptPercent to 81.",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"readiness": {"minCapturedPromptPercent": 81}},
        {"readiness": {"minCapturedPromptPercent": None}},
        {"readiness": {"onShortfall": "ServeAndWarn"}},
        {"warmup": {"maxGraphTokens": 1024}},
        {"warmup": {"enabled": False}},
        {"engine": {"executionMode": "TorchCompile"}},
        {"engine": {"executionMode": "Eager"}},
        {"engine": {"name": "torch"}},
        {"accelerator": {"generation": "none", "deviceMemory": "512Mi"}, "engine": {"executionMode": "TorchCompile"}},
    ],
    ids=str,
)
def test_thresholds_within_the_plugins_limit_are_not_refused(change: Object) -> None:
    assert plugin_violation(inference_with(CONTEXTS, **change)) is None


def test_execution_mode_defaults_to_that_of_the_kept_revision() -> None:
    unsaid = inference_with(CONTEXTS, engine={"executionMode": None})
    assert plugin_violation(unsaid) is None
    assert plugin_violation(replace(unsaid, stored_mode=ExecutionMode.HPU_GRAPHS)) is not None


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
            "spec.bucketing.prompt.query.padMax (default: a quarter of maxNumBatchedTokens) is below blockSize "
            f"512. vLLM's plugin splits attention by padMax and would not load. Raise padMax, {SWITCH}",
        ),
        (
            {"bucketing": {"prompt": {"query": {"padMax": 127}}}},
            "spec.bucketing.prompt.query.padMax (default: a quarter of maxNumBatchedTokens) is below blockSize "
            f"128. vLLM's plugin splits attention by padMax and would not load. Raise padMax, {SWITCH}",
        ),
    ],
    ids=["few tokens", "large blocks", "threshold of one's own", "quarter of the tokens", "little padding"],
)
def test_spec_failing_a_plugin_assertion_is_refused(change: Object, sentence: str) -> None:
    assert plugin_violation(inference_with(PADDED, **change)) == Problem("PlanImpossible", sentence)


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"maxNumBatchedTokens": 1024}},
        {"engine": {"blockSize": 512, "maxNumBatchedTokens": 2045}},
        {"bucketing": {"prompt": {"query": {"padMax": 128}}}},
        {"bucketing": {"strategy": "Linear"}, "engine": {"maxNumBatchedTokens": 512}},
        {"engine": {"maxNumBatchedTokens": 512, "settings": {"VLLM_HPU_FSDPA_SLICE_ENABLED": "False"}}},
        {"engine": {"maxNumBatchedTokens": 512, "settings": {"VLLM_PROMPT_USE_FUSEDSDPA": "0"}}},
        {"engine": {"maxNumBatchedTokens": 512, "settings": {"VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD": "1024"}}},
        {"engine": {"maxNumBatchedTokens": 512, "name": "torch"}},
        {"accelerator": {"generation": "none", "deviceMemory": "1Gi"}, "engine": {"maxNumBatchedTokens": 512}},
    ],
    ids=str,
)
def test_loadable_padding_aware_buckets_are_not_refused(change: Object) -> None:
    assert plugin_violation(inference_with(PADDED, **change)) is None


LONG: Object = {
    "accelerator": CARD,
    "model": {"maxModelLen": 131072},
    "engine": {
        "name": "vllm",
        "prefixCaching": True,
        "contiguousPagedAttention": False,
        "maxNumBatchedTokens": 8192,
        "maxNumSeqs": 4,
        "blockSize": 128,
    },
}


def test_bucket_computed_as_nan_is_refused() -> None:
    found = plugin_violation(inference_with(LONG))
    assert found is not None
    assert found.reason == "PlanImpossible"
    assert found.message.startswith(
        "spec.bucketing: prompt bucket (1, 8192, 978) has an attention bias of 2185232384 bytes for each prompt. "
        "With 2147483648 or more bytes, the fused attention kernel returns NaN without an error (measured on Gaudi 3). "
        "Lower spec.engine.maxNumBatchedTokens to 7680, or"
    )


def test_bucket_of_a_file_is_checked() -> None:
    file = {"strategy": "File", "file": "(1, [128, 16384], 960)\n([1, 4], 1, [1024, 4096])"}
    found = plugin_violation(inference_with(LONG, engine={"maxNumBatchedTokens": 16384}, bucketing=file))
    assert found is not None
    assert "prompt bucket (1, 16384, 960)" in found.message


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"maxNumBatchedTokens": 7680}},
        {"engine": {"maxNumBatchedTokens": 4096}},
        {"engine": {"settings": {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "true"}}},
        {"engine": {"name": "torch", "prefixCaching": False}},
        {"accelerator": {"generation": "none", "deviceMemory": "64Gi"}},
    ],
    ids=str,
)
def test_computable_plan_is_not_refused(change: Object) -> None:
    assert plugin_violation(inference_with(LONG, **change)) is None


SLICED: Object = {
    "strategy": "PaddingAware",
    "prompt": {"query": {"min": 1024, "step": 1024, "max": 8192}, "context": {"min": 0, "step": 64, "max": 960}},
}


def test_plan_with_sliced_attention_is_not_refused() -> None:
    assert plugin_violation(inference_with(LONG, bucketing=SLICED)) is None


def test_plan_with_disabled_slicing_is_refused() -> None:
    switched = inference_with(LONG, bucketing=SLICED, engine={"settings": {"VLLM_HPU_FSDPA_SLICE_ENABLED": "false"}})
    found = plugin_violation(switched)
    assert found is not None
    assert "prompt bucket (1, 8192, 976)" in found.message


BOTH: Object = {"accelerator": CARD, "engine": {"name": "vllm", "prefixCaching": True}}


def test_prefix_caching_disabled_by_contiguous_blocks_is_reported() -> None:
    assert why_settings_are_ignored(inference_with(BOTH)) == (
        "spec.engine.prefixCaching has no effect with engine.contiguousPagedAttention, because vLLM's plugin then "
        "reuses no KV blocks. Only split prompts have a context. Set contiguousPagedAttention to false, or set "
        "prefixCaching to false if no prompt is split."
    )
    assert first_violation(inference_with(BOTH), DEFAULTS) is None


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"contiguousPagedAttention": False}},
        {"engine": {"prefixCaching": False}},
        {"engine": {"name": "torch"}},
        {"accelerator": {"generation": "none", "deviceMemory": "1Gi"}},
    ],
    ids=str,
)
def test_effective_prefix_caching_is_not_reported(change: Object) -> None:
    assert why_settings_are_ignored(inference_with(BOTH, **change)) is None


def test_new_revision_violating_plugin_rules_creates_no_pod() -> None:
    cluster = Cluster(resource(**CONTEXTS))
    cluster.settle()
    assert pod_names(cluster) == []
    assert condition(cluster, "Stalled") == ("True", "ThresholdsUnreachable")


def test_running_revision_is_not_refused_by_plugin_rules() -> None:
    """An operator without the rule accepted this revision, which now serves."""
    cluster = Cluster(resource(**merged(CONTEXTS, {"readiness": {"minCapturedPromptPercent": 81}})))
    cluster.settle()
    cluster.change(readiness={"minCapturedPromptPercent": 100})
    cluster.operate()
    assert condition(cluster, "PlanAccepted") == ("True", "Accepted")
    assert len(pod_names(cluster)) == 1
