"""Readers of a layer in config.json: what it caches, and how wide it is.

A new family of models needs an entry in READERS, and a reader of its own only if its KV cache differs. The widths of
feed-forward networks are read by their usual keys, because they serve only for the workspace and for checkpoints whose
weight files are missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from gaudi_runtime.catalog.models.config_values import ConfigValues
from gaudi_runtime.catalog.models.shape import LayerShape
from gaudi_runtime.errors import ModelUnreadable

LayerReader = Callable[[ConfigValues, int, int], LayerShape]
"""Reads layer `index` of a model with a hidden size."""

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""The fields of config.json that may have the number of routed experts of a layer."""
SLIDING = "sliding_attention"
FULL = "full_attention"
RECURRENT = ("linear_attention", "mamba")
STATE_BYTES, CONVOLUTION_BYTES = 4, 2
"""The bytes of a number in the recurrent state of a gated delta network, and in any convolution state."""


def _attention(values: ConfigValues, hidden: int, index: int) -> LayerShape:
    """Read a layer with multi-head, grouped-query or multi-query attention."""
    heads = values.integer("num_attention_heads")
    kv_heads = values.integer("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelUnreadable(
            f"config.json: num_attention_heads is {heads}, but must be a multiple of num_key_value_heads ({kv_heads})"
        )
    head_dim = values.integer("head_dim", max(1, hidden // heads))
    width = 2 * (heads + kv_heads) * head_dim
    return _with_feed_forward(
        values, index, LayerShape(heads, kv_heads, 2 * head_dim, width, width, 0, windowed=_is_windowed(values, index))
    )


def _is_windowed(values: ConfigValues, index: int) -> bool:
    kinds, period = values.texts("layer_types"), values.integer("sliding_window_pattern", 0, low=0)
    if "sliding_window" not in values or not values.flag("use_sliding_window", True):
        return False
    return kinds[index : index + 1] == (SLIDING,) if kinds else not period or (index + 1) % period != 0


def _with_feed_forward(values: ConfigValues, index: int, layer: LayerShape) -> LayerShape:
    count = values.first_integer(*EXPERT_COUNTS)
    width = 3 * values.first_integer("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", default=1)
    step = values.first_integer("interleave_moe_layer_step", "decoder_sparse_step", default=1)
    if not count or index < values.integer("first_k_dense_replace", 0, low=0) or (index + 1) % step:
        return replace(layer, feed_forward=width)
    expert = 3 * values.first_integer("moe_intermediate_size", "intermediate_size", default=1)
    shared_count = values.first_integer("n_shared_experts", "num_shared_expert", "moe_num_shared_experts")
    shared = 3 * values.first_integer("shared_expert_intermediate_size", "shared_intermediate_size")
    active = values.first_integer("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", default=1)
    return replace(layer, feed_forward=shared or shared_count * expert, experts=count * expert, active=active * expert)


def _latent_attention(values: ConfigValues, hidden: int, index: int) -> LayerShape:
    """Read a layer of DeepSeek V2, V3 or R1, which caches one vector per token for all heads."""
    if "kv_lora_rank" not in values:
        return _attention(values, hidden, index)
    heads, kv_rank = values.integer("num_attention_heads"), values.integer("kv_lora_rank")
    query_rank, rope = values.integer("q_lora_rank", hidden), values.integer("qk_rope_head_dim")
    query, value = values.integer("qk_nope_head_dim") + rope, values.integer("v_head_dim")
    expansion = heads * (query_rank * query + kv_rank * (query - rope + value)) // hidden
    compression = kv_rank + rope + (query_rank if "q_lora_rank" in values else 0)
    return _with_feed_forward(
        values,
        index,
        LayerShape(
            heads=heads,
            kv_heads=1,
            cache_width=kv_rank + rope,
            attention=2 * heads * (query + value),
            attention_matrices=compression + expansion + heads * value,
            feed_forward=0,
        ),
    )


def _gemma4(values: ConfigValues, hidden: int, index: int) -> LayerShape:
    """Read a layer of Gemma 4: full attention has heads of its own, and the last layers share a cache."""
    kinds = values.texts("layer_types")
    is_full = (
        kinds[index : index + 1] == (FULL,) if kinds else (index + 1) % values.integer("sliding_window_pattern") == 0
    )
    if is_full:
        kv_heads = values.first_integer("num_global_key_value_heads", "num_key_value_heads", default=1)
        values = values.replaced(head_dim=values.integer("global_head_dim"), num_key_value_heads=kv_heads)
    layer = _attention(values, hidden, index)
    # Layers with experts have a dense network, too.
    layer = replace(layer, feed_forward=3 * values.integer("intermediate_size"))
    own_cache = index < values.integer("num_hidden_layers") - values.integer("num_kv_shared_layers", 0, low=0)
    return layer if own_cache else replace(layer, kv_heads=0)


def _hybrid(values: ConfigValues, hidden: int, index: int) -> LayerShape:
    """Read a layer of a model some of whose layers have a recurrent state instead of a KV cache."""
    kinds, interval = values.texts("layer_types"), values.integer("full_attention_interval", 4)
    kind = (kinds[index : index + 1] or ("",))[0] if kinds else RECURRENT[0] if (index + 1) % interval else FULL
    if kind not in RECURRENT:
        return _attention(values, hidden, index)
    layer = _mamba(values, hidden) if "mamba_n_heads" in values else _gated_delta_net(values)
    return _with_feed_forward(values, index, layer)


def _mamba(values: ConfigValues, hidden: int) -> LayerShape:
    heads, state, groups = (values.integer(f"mamba_{name}") for name in ("n_heads", "d_state", "n_groups"))
    inner = values.integer("mamba_expand", 2) * hidden
    convolution = inner + 2 * groups * state
    width = inner + convolution + heads
    numbers = inner * state + (values.integer("mamba_d_conv", 4) - 1) * convolution
    return LayerShape(
        heads=values.integer("num_attention_heads"),
        kv_heads=0,
        cache_width=0,
        attention=width + inner,
        attention_matrices=width + inner,
        feed_forward=0,
        state_bytes=CONVOLUTION_BYTES * numbers,
    )


def _gated_delta_net(values: ConfigValues) -> LayerShape:
    names = ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim")
    key_heads, key_dim, value_heads, value_dim = (values.integer(f"linear_{name}") for name in names)
    key, value = key_heads * key_dim, value_heads * value_dim
    width = 2 * key + 3 * value + 2 * value_heads
    convolution = (values.integer("linear_conv_kernel_dim", 4) - 1) * (2 * key + value)
    return LayerShape(
        heads=values.integer("num_attention_heads"),
        kv_heads=0,
        cache_width=0,
        attention=width,
        attention_matrices=width,
        feed_forward=0,
        state_bytes=STATE_BYTES * value * key_dim + CONVOLUTION_BYTES * convolution,
    )


def _ungated(values: ConfigValues, hidden: int, index: int) -> LayerShape:
    """Read a layer of GPT BigCode, whose feed-forward network has two matrices."""
    layer = _attention(values, hidden, index)
    return replace(layer, feed_forward=layer.feed_forward * 2 // 3)


_ATTENTION = (
    "ernie4_5_moe_vl ernie4_5_vl_moe ernie4_5_vl_moe_text gemma2 gemma3 gemma3_text gpt_oss granite granitemoe "
    "hunyuan_v1_dense hunyuan_v1_moe llama llama4_text minimax_m2 minimax_m3 minimax_m3_vl minimax_m3_vl_text mistral "
    "mixtral qwen2 qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen3 qwen3_moe qwen3_vl_moe_text qwen3_vl_text"
)

READERS: Mapping[str, LayerReader] = {
    **dict.fromkeys(_ATTENTION.split(), _attention),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_vl_v2", "mistral_large_3"), _latent_attention),
    **dict.fromkeys(
        ("granitemoehybrid", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _hybrid
    ),
    "gemma4_text": _gemma4,
    "gpt_bigcode": _ungated,
}
"""The readers by model_type, which is that of the decoder's own object if config.json has one."""

_GEMMA3: Mapping[str, int] = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "tie_word_embeddings": True,
}
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma2": {"sliding_window": 4096, "sliding_window_pattern": 2, "tie_word_embeddings": True},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma4_text": {"sliding_window_pattern": 6, "global_head_dim": 512, "tie_word_embeddings": True},
    "gpt_bigcode": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "gpt_oss": {"sliding_window_pattern": 2},
    "llama": {"hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32, "num_attention_heads": 32},
    "llama4_text": {"n_shared_experts": 1},
}
"""The defaults of the configuration classes in transformers 5, for keys that published checkpoints leave out."""
