"""Readers of the layers in config.json, one for each family of models.

If a checkpoint leaves out a key, the reader uses the default of the configuration class in transformers 5.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gaudi_runtime.catalog.models.config_values import ConfigValues
from gaudi_runtime.catalog.models.shape import Attention, Experts, LatentAttention, Layer, Mlp
from gaudi_runtime.errors import ModelUnreadable

LayerReader = Callable[[ConfigValues, int, int], Layer]


@dataclass(frozen=True)
class Family:
    """The layer reader of one family of models. It reads layer `index` of a model with a hidden size.

    `defaults` are the defaults of the configuration class. A checkpoint must have a key for each dimension without a
    default.
    """

    read_layer: LayerReader
    tied: bool = False
    defaults: Mapping[str, int] = field(default_factory=dict)


def _attention(
    values: ConfigValues, hidden: int, *, bias: bool, out_bias: bool = False, norm: bool = False
) -> Attention:
    heads = values.integer("num_attention_heads")
    kv_heads = values.integer("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelUnreadable(
            f"config.json: num_attention_heads is {heads}, but must be a multiple of num_key_value_heads ({kv_heads})"
        )
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=values.integer("head_dim", max(1, hidden // heads)),
        qkv_bias=bias,
        out_bias=out_bias,
        query_key_norm=norm,
        sliding_window=_sliding_window(values),
    )


def _sliding_window(values: ConfigValues) -> int | None:
    return values.optional_integer("sliding_window") if values.flag("use_sliding_window", True) else None


def _mlp(values: ConfigValues, bias: bool = False) -> Mlp:
    return Mlp(values.integer("intermediate_size"), bias=bias)


def llama(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of Llama, Mistral or Granite."""
    bias = values.flag("attention_bias", False)
    return Layer(_attention(values, hidden, bias=bias, out_bias=bias), _mlp(values, values.flag("mlp_bias", False)))


def qwen2(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of Qwen 2 or 2.5. Queries, keys and values have biases.

    Layers have a sliding window only if the config.json enables it.
    """
    sliding_window = _sliding_window(values) if values.flag("use_sliding_window", False) else None
    attention = _attention(values, hidden, bias=True)
    return Layer(replace(attention, sliding_window=sliding_window), _mlp(values))


def qwen3(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of Qwen 3, which has a norm on queries and keys instead of biases."""
    bias = values.flag("attention_bias", False)
    attention = _attention(values, hidden, bias=bias, out_bias=bias, norm=True)
    return Layer(replace(attention, sliding_window=None), _mlp(values))


def qwen2_moe(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of a Qwen 2 mixture of experts, in which the shared expert has its own gate."""
    attention = qwen2(values, hidden, index).attention
    experts = Experts(
        count=values.integer("num_experts"),
        active=values.integer("num_experts_per_tok"),
        intermediate=values.integer("moe_intermediate_size"),
        shared_intermediate=values.integer("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    return Layer(attention, experts if _has_experts(values, index) else _mlp(values))


def qwen3_moe(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of a Qwen 3 mixture of experts."""
    experts = Experts(
        count=values.integer("num_experts"),
        active=values.integer("num_experts_per_tok"),
        intermediate=values.integer("moe_intermediate_size"),
    )
    return Layer(qwen3(values, hidden, index).attention, experts if _has_experts(values, index) else _mlp(values))


def _has_experts(values: ConfigValues, index: int) -> bool:
    sparse_step = values.integer("decoder_sparse_step", 1)
    return index not in values.integers("mlp_only_layers") and (index + 1) % sparse_step == 0


def mixtral(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of Mixtral or of a Granite mixture of experts. Every layer has experts."""
    experts = Experts(
        count=values.integer("num_local_experts"),
        active=values.integer("num_experts_per_tok"),
        intermediate=values.integer("intermediate_size"),
    )
    bias = values.flag("attention_bias", False)
    return Layer(_attention(values, hidden, bias=bias, out_bias=bias), experts)


def deepseek(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of DeepSeek V2, V3 or R1: latent attention, and experts in all layers after the first dense ones."""
    query_rank = values.optional_integer("q_lora_rank")
    attention = LatentAttention(
        heads=values.integer("num_attention_heads"),
        query_rank=query_rank,
        kv_rank=values.integer("kv_lora_rank"),
        nope_dim=values.integer("qk_nope_head_dim"),
        rope_dim=values.integer("qk_rope_head_dim"),
        value_dim=values.integer("v_head_dim"),
    )
    dense_layers = values.integer("first_k_dense_replace", 0, low=0)
    is_dense = index < dense_layers or index % values.integer("moe_layer_freq", 1)
    return Layer(attention, _mlp(values) if is_dense else _deepseek_experts(values))


def _deepseek_experts(values: ConfigValues) -> Experts:
    intermediate = values.integer("moe_intermediate_size")
    return Experts(
        count=values.integer("n_routed_experts"),
        active=values.integer("num_experts_per_tok"),
        intermediate=intermediate,
        shared_intermediate=intermediate * values.integer("n_shared_experts", 0, low=0),
        # With `noaux_tc`, as in DeepSeek V3, the router has a bias that balances the load of the experts.
        router_bias=values.text("topk_method", "") == "noaux_tc",
    )


def gemma2(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of Gemma 2. Each layer has four norms, and every other layer has a sliding window."""
    attention = _attention(values, hidden, bias=False)
    sliding_window = None if index % 2 else values.integer("sliding_window", 4096)
    return Layer(replace(attention, sliding_window=sliding_window), _mlp(values), norms=4)


def gemma3(values: ConfigValues, hidden: int, index: int) -> Layer:
    """Read a layer of Gemma 3. Queries and keys have norms; five of six layers have a sliding window."""
    heads = values.integer("num_attention_heads", 8)
    full_attention = (index + 1) % values.integer("sliding_window_pattern", 6) == 0
    attention = Attention(
        heads=heads,
        kv_heads=values.integer("num_key_value_heads", 4),
        head_dim=values.integer("head_dim", 256),
        query_key_norm=True,
        sliding_window=None if full_attention else values.integer("sliding_window", 4096),
    )
    return Layer(attention, Mlp(values.integer("intermediate_size", 9216)), norms=4)


_GEMMA3 = Family(gemma3, tied=True, defaults={"vocab_size": 262_208, "hidden_size": 2304, "num_hidden_layers": 26})

FAMILIES: Mapping[str, Family] = {
    "llama": Family(llama),
    "mistral": Family(llama),
    "granite": Family(llama),
    "qwen2": Family(qwen2),
    "qwen2_5_vl": Family(qwen2),
    "qwen2_5_vl_text": Family(qwen2),
    "qwen3": Family(qwen3),
    "qwen2_moe": Family(qwen2_moe),
    "qwen3_moe": Family(qwen3_moe),
    "qwen3_vl_text": Family(qwen3),
    "qwen3_vl_moe_text": Family(qwen3_moe),
    "mixtral": Family(mixtral),
    "granitemoe": Family(mixtral),
    "deepseek_v2": Family(deepseek),
    "deepseek_v3": Family(deepseek),
    "gemma2": Family(gemma2, tied=True),
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
}
"""The families by model_type, which is that of `text_config` if a checkpoint has one."""
