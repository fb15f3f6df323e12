"""How each family of models writes its layers into config.json, and what it leaves out there.

The defaults are those of the configuration classes of transformers 5: a key that a checkpoint leaves out has them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gaudi_runtime.catalog.models.facts import Facts
from gaudi_runtime.catalog.models.shape import Attention, Experts, LatentAttention, Layer, Mlp
from gaudi_runtime.errors import ModelUnreadable

LayerReader = Callable[[Facts, int, int], Layer]


@dataclass(frozen=True)
class Family:
    """How to read layer `index` of a model with a hidden size.

    `defaults` are those of its class; without one, a checkpoint must name the dimension.
    """

    layer: LayerReader
    tied: bool = False
    defaults: Mapping[str, int] = field(default_factory=dict)


def _attention(facts: Facts, hidden: int, *, bias: bool, out_bias: bool = False, norm: bool = False) -> Attention:
    heads = facts.whole("num_attention_heads")
    kv_heads = facts.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise ModelUnreadable(f"config.json: {heads} attention heads cannot share {kv_heads} key-value heads")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=facts.whole("head_dim", max(1, hidden // heads)),
        qkv_bias=bias,
        out_bias=out_bias,
        query_key_norm=norm,
        window=_window(facts),
    )


def _window(facts: Facts) -> int | None:
    return facts.maybe_whole("sliding_window") if facts.flag("use_sliding_window", True) else None


def _mlp(facts: Facts, bias: bool = False) -> Mlp:
    return Mlp(facts.whole("intermediate_size"), bias=bias)


def llama(facts: Facts, hidden: int, index: int) -> Layer:
    """Llama, Mistral and Granite."""
    bias = facts.flag("attention_bias", False)
    return Layer(_attention(facts, hidden, bias=bias, out_bias=bias), _mlp(facts, facts.flag("mlp_bias", False)))


def qwen2(facts: Facts, hidden: int, index: int) -> Layer:
    """Qwen 2 and 2.5: biases on queries, keys and values; a window only where it is switched on."""
    window = _window(facts) if facts.flag("use_sliding_window", False) else None
    attention = _attention(facts, hidden, bias=True)
    return Layer(replace(attention, window=window), _mlp(facts))


def qwen3(facts: Facts, hidden: int, index: int) -> Layer:
    """Qwen 3: a norm on queries and keys in place of biases."""
    bias = facts.flag("attention_bias", False)
    attention = _attention(facts, hidden, bias=bias, out_bias=bias, norm=True)
    return Layer(replace(attention, window=None), _mlp(facts))


def qwen2_moe(facts: Facts, hidden: int, index: int) -> Layer:
    """Qwen 2 mixture of experts: a shared expert with a gate of its own."""
    attention = qwen2(facts, hidden, index).attention
    experts = Experts(
        count=facts.whole("num_experts"),
        active=facts.whole("num_experts_per_tok"),
        intermediate=facts.whole("moe_intermediate_size"),
        shared_intermediate=facts.whole("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    return Layer(attention, experts if _sparse(facts, index) else _mlp(facts))


def qwen3_moe(facts: Facts, hidden: int, index: int) -> Layer:
    """Qwen 3 mixture of experts."""
    experts = Experts(
        count=facts.whole("num_experts"),
        active=facts.whole("num_experts_per_tok"),
        intermediate=facts.whole("moe_intermediate_size"),
    )
    return Layer(qwen3(facts, hidden, index).attention, experts if _sparse(facts, index) else _mlp(facts))


def _sparse(facts: Facts, index: int) -> bool:
    step = facts.whole("decoder_sparse_step", 1)
    return index not in facts.wholes("mlp_only_layers") and (index + 1) % step == 0


def mixtral(facts: Facts, hidden: int, index: int) -> Layer:
    """Mixtral, and Granite's mixtures of experts: every layer is one."""
    experts = Experts(
        count=facts.whole("num_local_experts"),
        active=facts.whole("num_experts_per_tok"),
        intermediate=facts.whole("intermediate_size"),
    )
    bias = facts.flag("attention_bias", False)
    return Layer(_attention(facts, hidden, bias=bias, out_bias=bias), experts)


def deepseek(facts: Facts, hidden: int, index: int) -> Layer:
    """DeepSeek V2, V3 and R1: latent attention; experts after the first dense layers."""
    rank = facts.maybe_whole("q_lora_rank")
    attention = LatentAttention(
        heads=facts.whole("num_attention_heads"),
        query_rank=rank,
        kv_rank=facts.whole("kv_lora_rank"),
        nope_dim=facts.whole("qk_nope_head_dim"),
        rope_dim=facts.whole("qk_rope_head_dim"),
        value_dim=facts.whole("v_head_dim"),
    )
    dense_first = facts.whole("first_k_dense_replace", 0, least=0)
    dense = index < dense_first or index % facts.whole("moe_layer_freq", 1)
    return Layer(attention, _mlp(facts) if dense else _deepseek_experts(facts))


def _deepseek_experts(facts: Facts) -> Experts:
    width = facts.whole("moe_intermediate_size")
    return Experts(
        count=facts.whole("n_routed_experts"),
        active=facts.whole("num_experts_per_tok"),
        intermediate=width,
        shared_intermediate=width * facts.whole("n_shared_experts", 0, least=0),
        # DeepSeek V3 balances its experts by a bias of the router instead of a loss.
        router_bias=facts.text("topk_method", "") == "noaux_tc",
    )


def gemma2(facts: Facts, hidden: int, index: int) -> Layer:
    """Gemma 2: four norms a layer, and every other layer looks back a window only."""
    attention = _attention(facts, hidden, bias=False)
    window = None if index % 2 else facts.whole("sliding_window", 4096)
    return Layer(replace(attention, window=window), _mlp(facts), norms=4)


def gemma3(facts: Facts, hidden: int, index: int) -> Layer:
    """Gemma 3: norms on queries and keys; every sixth layer sees everything, the others a window."""
    heads = facts.whole("num_attention_heads", 8)
    full = (index + 1) % facts.whole("sliding_window_pattern", 6) == 0
    attention = Attention(
        heads=heads,
        kv_heads=facts.whole("num_key_value_heads", 4),
        head_dim=facts.whole("head_dim", 256),
        query_key_norm=True,
        window=None if full else facts.whole("sliding_window", 4096),
    )
    return Layer(attention, Mlp(facts.whole("intermediate_size", 9216)), norms=4)


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
"""By model_type; that of `text_config` where a checkpoint has one."""
