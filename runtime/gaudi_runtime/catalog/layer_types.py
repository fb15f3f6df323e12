"""Kinds of layers that need other settings with vLLM's plugin, or exclude some (docs/internals/vllm.md)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.bucketing import Limits

RECURRENT = frozenset({"linear_attention", "gdn_attention"})
RELABELED = "granitemoehybrid"
"""The model type whose Mamba layers transformers also calls linear attention."""


@dataclass(frozen=True)
class LayerKinds:
    """The kinds of layers of a model that need other settings.

    `is_mixed`: layers of several kinds, such as full attention and sliding windows.
    `has_gated_delta_nets`: some layers keep a recurrent state of this kind. `has_experts`: a mixture of experts.
    """

    is_mixed: bool = False
    has_gated_delta_nets: bool = False
    has_experts: bool = False


def find_layer_kinds(model_type: str, layer_types: Collection[str], experts: int = 0) -> LayerKinds:
    """Return the kinds of layers by the fields of the model's config in transformers, as the plugin finds them.

    `experts` is the number of routed experts of a layer.
    """
    kinds = frozenset(layer_types)
    return LayerKinds(
        is_mixed=len(kinds) > 1,
        has_gated_delta_nets=bool(kinds & RECURRENT) and model_type != RELABELED,
        has_experts=experts > 1,
    )


def layer_kinds_of_shape(shape: ModelShape) -> LayerKinds:
    """Return the kinds of layers of a model whose shape is known."""
    has_states = [layer.state_bytes > 0 for layer in shape.layers]
    return LayerKinds(
        is_mixed=len({*zip((layer.windowed for layer in shape.layers), has_states, strict=True)}) > 1,
        has_gated_delta_nets=shape.family != RELABELED and any(has_states),
        has_experts=any(layer.experts for layer in shape.layers),
    )


def adjust_limits_to_layers(limits: Limits, kinds: LayerKinds, cores: int) -> Limits:
    """Return the limits that the layers of a model need with `cores` engine cores, the degree of data parallelism.

    With layers of several kinds, paged attention is not contiguous. The cores of a mixture of experts run joint
    batches.
    """
    # A test returned wrong tokens for sliding windows, and decode batches of all blocks of the device for Mamba layers
    # (docs/internals/vllm.md).
    if kinds.is_mixed and limits.contiguous_paged_attention:
        limits = limits.model_copy(update={"contiguous_paged_attention": False})
    if kinds.has_experts and cores > 1:
        limits = limits.model_copy(update={"joint_batches": True})
    return limits


def refused_settings(kinds: LayerKinds, limits: Limits, *, caches_states: bool) -> Iterator[str]:
    """Yield a sentence for each setting with which the plugin answers wrongly, or compiles while it serves.

    `limits` are those of `adjust_limits_to_layers`. `caches_states` is True for a plugin release that supports prefix
    caching for gated delta networks.
    """
    if kinds.has_gated_delta_nets and limits.prefix_caching and not caches_states:
        yield (
            "This model has gated delta networks, and with prefix caching vllm-gaudi below 0.30 gives wrong answers "
            "for such models. Set spec.engine.prefixCaching to false."
        )
    # Buckets for all joint batches would be several times as many, and most of them longer than any sequence.
    if limits.joint_batches and limits.has_context:
        yield (
            "The engine cores of a mixture of experts run joint batches, which have buckets only for prompts without "
            "context. Set spec.engine.prefixCaching to false and spec.engine.maxNumBatchedTokens to at least "
            "maxModelLen."
        )
