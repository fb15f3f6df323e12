"""Tiny checkpoints with random weights for the families of models that differ from Llama.

Each configuration is the family's own configuration in transformers with small sizes. So the layers, the KV cache and
the code in vLLM and its plugin are those of the family, but the answers are random text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

WINDOW = 256
"""The sliding window of the families that have one, in tokens."""
SIZES: dict[str, Any] = {
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "initializer_range": 0.15,
    "tie_word_embeddings": False,
}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
WINDOWS = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
LATENT = {"q_lora_rank": 32, "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 32, "mamba_d_state": 32, "mamba_n_groups": 1, "mamba_expand": 2}
STATES = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_moe": ("Qwen3Moe", {**EXPERTS, "num_experts": 4}),
    "deepseek_v3": (
        "DeepseekV3",
        {
            **EXPERTS,
            **LATENT,
            "head_dim": None,
            "num_key_value_heads": 4,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
        },
    ),
    "granitemoehybrid": (
        "GraniteMoeHybrid",
        {
            **MAMBA,
            "head_dim": None,
            "layer_types": ["mamba", "attention"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 128,
            "position_embedding_type": "nope",
        },
    ),
    "qwen3_next": (
        "Qwen3Next",
        {
            **EXPERTS,
            **STATES,
            "num_experts": 4,
            "shared_expert_intermediate_size": 64,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    # The layers of the large models have no embeddings of their own. The heads of all layers have one size here,
    # because vLLM 0.26.0 and transformers 5.16.0 together cannot read a configuration with two sizes.
    "gemma4_text": ("Gemma4", {**WINDOWS, "hidden_size_per_layer_input": 0, "global_head_dim": 32}),
    "gemma3_text": ("Gemma3", {**WINDOWS, "query_pre_attn_scalar": 32}),
    "gpt_oss": ("GptOss", {**WINDOWS, "num_local_experts": 4, "num_experts_per_tok": 2}),
}
"""The name of each family's classes in transformers, and the fields that differ from SIZES; None removes a field.

The keys are the model types of the configurations.
"""
TEXT_CONFIGS = frozenset({"Gemma3", "Gemma4"})
"""Families with images. Their text models have configurations of their own."""


def write_family(folder: Path, family: str) -> Path:
    """Write a checkpoint of this family with random weights into `folder`, and return the folder."""
    import torch
    import transformers

    from examples.make_tiny_checkpoint import make_tokenizer

    name, fields = FAMILIES[family]
    tokenizer = make_tokenizer()
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    settings = {field: value for field, value in {**SIZES, **special, **fields}.items() if value is not None}
    config_class = getattr(transformers, f"{name}TextConfig" if name in TEXT_CONFIGS else f"{name}Config")
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(config_class(**settings, bos_token_id=None))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def logit_gaps(checkpoint: Path, answers: Sequence[tuple[list[int], list[int]]]) -> tuple[float, float]:
    """Return the largest gap of a chosen token, and the largest difference that rounding makes.

    Both are differences of logits in transformers: between the best and the chosen token in float32, and between
    bfloat16, the precision of the card, and float32.
    """
    import torch
    from transformers import AutoModelForCausalLM

    exact: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    rounded: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)
    worst = rounding = 0.0
    for prompt, answer in answers:
        tokens = torch.tensor([prompt + answer])
        with torch.no_grad():
            logits = exact(tokens).logits[0, len(prompt) - 1 : -1]
            rounding = max(rounding, float((rounded(tokens).logits[0, len(prompt) - 1 : -1] - logits).abs().max()))
        chosen = logits[torch.arange(len(answer)), torch.tensor(answer)]
        worst = max(worst, float((logits.max(dim=-1).values - chosen).max()))
    return worst, rounding
