"""Models for which vLLM's plugin gives wrong answers under some settings."""

from typing import Any

import pytest

from gaudi_runtime.catalog.layer_types import (
    LayerKinds,
    adjust_limits_to_layers,
    find_layer_kinds,
    refused_settings,
)
from gaudi_runtime.contract.bucketing import Limits

LIMITS = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024, block_size=128)
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def reasons(kinds: LayerKinds, *, caches_states: bool = False, **limits: Any) -> list[str]:
    return list(refused_settings(kinds, LIMITS.model_copy(update=limits), caches_states=caches_states))


@pytest.mark.parametrize(
    ("types", "mixed"), [((SLIDING, FULL), True), ((SLIDING, SLIDING), False), ((FULL, LINEAR), True), ((), False)]
)
def test_layers_of_several_kinds_are_found(types: tuple[str, ...], mixed: bool) -> None:
    assert find_layer_kinds("gemma3_text", types).is_mixed is mixed


@pytest.mark.parametrize(
    ("model_type", "types", "found"),
    [("qwen3_next", (LINEAR, FULL), True), ("granitemoehybrid", (LINEAR, FULL), False), ("llama", (FULL,), False)],
)
def test_gated_delta_networks_are_found(model_type: str, types: tuple[str, ...], found: bool) -> None:
    assert find_layer_kinds(model_type, types).has_gated_delta_nets is found


@pytest.mark.parametrize("mixed", [True, False])
def test_layers_of_several_kinds_have_scattered_blocks(mixed: bool) -> None:
    contiguous = LIMITS.model_copy(update={"contiguous_paged_attention": True})
    found = adjust_limits_to_layers(contiguous, LayerKinds(is_mixed=mixed), 1)
    assert found.contiguous_paged_attention is not mixed


def test_gated_delta_networks_require_no_prefix_caching_below_release_0_30() -> None:
    kinds = LayerKinds(has_gated_delta_nets=True)
    (sentence,) = reasons(kinds, prefix_caching=True)
    assert sentence.endswith("Set spec.engine.prefixCaching to false.")
    assert reasons(kinds, prefix_caching=False) == reasons(kinds, prefix_caching=True, caches_states=True) == []


@pytest.mark.parametrize(("experts", "cores", "joint"), [(8, 2, True), (8, 1, None), (0, 2, None)])
def test_cores_of_a_mixture_of_experts_run_joint_batches(experts: int, cores: int, joint: bool | None) -> None:
    assert adjust_limits_to_layers(LIMITS, find_layer_kinds("qwen3_moe", (), experts), cores).joint_batches is joint


@pytest.mark.parametrize("context", [{"prefix_caching": True}, {"splits_prompts": True}])
def test_joint_batches_exclude_prompts_with_context(context: dict[str, bool]) -> None:
    (sentence,) = reasons(LayerKinds(has_experts=True), joint_batches=True, **context)
    assert sentence.endswith("spec.engine.maxNumBatchedTokens to at least maxModelLen.")
    assert reasons(LayerKinds(has_experts=True), joint_batches=True) == []
