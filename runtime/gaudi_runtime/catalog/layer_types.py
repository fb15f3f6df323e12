"""Kinds of layers for which vLLM's plugin gives wrong answers under some settings (docs/internals/vllm.md)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gaudi_runtime.contract.bucketing import Limits

RECURRENT = frozenset({"linear_attention", "gdn_attention"})
RELABELED = "granitemoehybrid"
"""The model type whose Mamba layers transformers also calls linear attention."""


@dataclass(frozen=True)
class LayerKinds:
    """The kinds of layers of a model that need other settings.

    `is_mixed`: layers of several kinds, such as full attention beside sliding windows or recurrent states.
    `has_gated_delta_nets`: some layers keep a recurrent state of this kind.
    """

    is_mixed: bool = False
    has_gated_delta_nets: bool = False


def find_layer_kinds(model_type: str, layer_types: Collection[str]) -> LayerKinds:
    """Return the kinds of layers by the fields of the model's config in transformers, as the plugin finds them."""
    kinds = frozenset(layer_types)
    return LayerKinds(is_mixed=len(kinds) > 1, has_gated_delta_nets=bool(kinds & RECURRENT) and model_type != RELABELED)


def adjust_limits_to_layers(limits: Limits, kinds: LayerKinds) -> Limits:
    """Return the limits without contiguous paged attention for a model with layers of several kinds."""
    # A test returned wrong tokens for sliding windows, and decode batches of all blocks of the device for Mamba layers
    # (docs/internals/vllm.md).
    if not (kinds.is_mixed and limits.contiguous_paged_attention):
        return limits
    return limits.model_copy(update={"contiguous_paged_attention": False})


def wrong_answer_settings(kinds: LayerKinds, limits: Limits, *, caches_states: bool) -> Iterator[str]:
    """Yield a sentence for each setting with which the plugin gives wrong answers for these layers.

    `caches_states` is True for a plugin release that supports prefix caching for gated delta networks.
    """
    if kinds.has_gated_delta_nets and limits.prefix_caching and not caches_states:
        yield (
            "This model has gated delta networks, and with prefix caching vllm-gaudi below 0.30 gives wrong answers "
            "for such models. Set spec.engine.prefixCaching to false."
        )
