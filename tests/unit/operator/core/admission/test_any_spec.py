"""Admission never crashes on a spec that the API server accepts, and a refused spec starts no pods."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_operator.core.actions import Apply
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition

VALUES = st.integers(0, 5000)
PERCENTS = st.integers(0, 100)


def settings_of_a_range() -> st.SearchStrategy[dict[str, int]]:
    """Return a strategy for the settings of a dimension, including contradictory ones (min above max, zeros)."""
    fields = {"min": VALUES, "step": st.integers(1, 5000), "max": VALUES}
    return st.fixed_dictionaries({}, optional=fields)


BUCKETING = st.fixed_dictionaries(
    {"strategy": st.sampled_from([*map(capitalize_contract_word, RANGED_STRATEGIES), "File"])},
    optional={
        "file": st.sampled_from(["(1, 128, 0)\n(1, 1, 8)", "(1, range(0, 10**9), 0)", "(0, 0", ""]),
        "prompt": st.fixed_dictionaries({}, optional={"query": settings_of_a_range()}),
        "decode": st.fixed_dictionaries({}, optional={"batchSize": settings_of_a_range()}),
    },
)
ENGINE = st.fixed_dictionaries(
    {"name": st.sampled_from(["sim", "vllm"]), "blockSize": st.sampled_from([16, 128, 4096])},
    optional={
        "maxNumSeqs": st.integers(1, 65_536),
        "maxNumPrefillSeqs": st.integers(1, 64),
        "maxNumBatchedTokens": st.integers(1, 16_384),
        "prefixCaching": st.booleans(),
        "settings": st.fixed_dictionaries(
            {},
            optional={
                "VLLM_CONTIGUOUS_PA": st.sampled_from(["true", "false"]),
                "VLLM_GRAPH_PROMPT_RATIO": st.sampled_from(["0", "0.5", "1"]),
            },
        ),
        "deviceMemoryUtilizationPercent": st.integers(1, 100),
    },
)
SPECS = st.fixed_dictionaries(
    {
        "model": st.fixed_dictionaries(
            {"maxModelLen": st.integers(1, 16_384)}, optional={"servedNames": st.just(["meta-llama/Llama-3.1-8B"])}
        ),
        "accelerator": st.fixed_dictionaries(
            {"deviceMemory": st.sampled_from(["1", "4Ki", "1Gi", "64Gi", "1Ei", "9E"])}
        ),
        "engine": ENGINE,
        "bucketing": BUCKETING,
        "warmup": st.fixed_dictionaries({"graphMemoryPercent": st.integers(0, 99)}),
        "readiness": st.fixed_dictionaries(
            {
                "minCapturedPromptPercent": PERCENTS,
                "minCapturedDecodePercent": PERCENTS,
                "onShortfall": st.sampled_from(["Block", "ServeAndWarn"]),
            }
        ),
    }
)


@given(SPECS)
@settings(max_examples=60, deadline=None)
def test_any_spec_is_either_refused_or_started(spec: dict[str, Any]) -> None:
    cluster = Cluster(resource(**spec))
    plan = cluster.operate()
    made = {action.manifest["kind"] for action in plan.actions if isinstance(action, Apply)}
    assert violations(cluster.resource) == []
    if condition(cluster, "PlanAccepted")[0] != "False":
        assert "ReplicaSet" in made
    else:
        assert made == set()
