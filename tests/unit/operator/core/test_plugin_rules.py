"""What is held against a new revision by rules of vLLM's plugin, and against none that runs."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.admission.plugin import plugin_violation
from gaudi_operator.core.resource import Inference
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.errors import Problem
from tests.builders import Object, merged
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import CARD, inference, resource
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
    },
}


def asked(base: Object, **change: Any) -> Inference:
    return inference(**merged(base, change))


def test_contexts_above_the_plugins_own_limit_are_refused() -> None:
    assert plugin_violation(asked(CONTEXTS)) == Problem(
        "ThresholdsUnreachable",
        "spec.warmup.maxGraphTokens is left out, so maxNumBatchedTokens 512 counts, which leaves 3 of 16 prompt "
        "buckets without a graph, but spec.readiness asks for 100 % of prompt graphs: raise it, or lower "
        "minCapturedPromptPercent to 81.",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"readiness": {"minCapturedPromptPercent": 81}},
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
    assert plugin_violation(asked(CONTEXTS, **change)) is None


def test_mode_of_the_kept_revision_counts_where_none_is_said() -> None:
    unsaid = asked(CONTEXTS, engine={"executionMode": None})
    assert plugin_violation(unsaid) is None
    assert plugin_violation(replace(unsaid, kept_mode=ExecutionMode.HPU_GRAPHS)) is not None


def test_new_revision_against_the_plugins_rules_makes_no_pod() -> None:
    cluster = Cluster(resource(**CONTEXTS))
    cluster.settle()
    assert pod_names(cluster) == []
    assert condition(cluster, "Stalled") == ("True", "ThresholdsUnreachable")


def test_what_runs_is_not_refused_by_the_plugins_rules() -> None:
    """As a resource of release 0.1.0: it was accepted before the rule was known, and serves."""
    cluster = Cluster(resource(**merged(CONTEXTS, {"readiness": {"minCapturedPromptPercent": 81}})))
    cluster.settle()
    cluster.change(readiness={"minCapturedPromptPercent": 100})
    cluster.operate()
    assert condition(cluster, "PlanAccepted") == ("True", "Accepted")
    assert len(pod_names(cluster)) == 1
