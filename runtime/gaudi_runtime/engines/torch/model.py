"""The transformers model: which architectures are served, and one forward over the buffers of a bucket."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig
from transformers.utils.logging import disable_progress_bar

from gaudi_runtime.contract.config import Dtype
from gaudi_runtime.engines.torch.attention import ATTENTION_NAME, decode_attention, prompt_attention
from gaudi_runtime.engines.torch.buffers import Buffers
from gaudi_runtime.engines.torch.checkpoint import Checkpoint
from gaudi_runtime.engines.torch.geometry import Geometry, KVCache
from gaudi_runtime.errors import ModelUnreadable, UnsupportedModel

Network = Any
"""A transformers causal language model; the library has no types."""

ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # the others change with the length of a sequence


def check_architecture(config: PreTrainedConfig) -> None:
    """Raise UnsupportedModel for what this engine would serve wrongly."""
    name = (config.architectures or ["(none)"])[0]
    if name not in ARCHITECTURES:
        raise UnsupportedModel(
            f"config.json names the architecture {name}, but the torch engine serves {', '.join(ARCHITECTURES)}: "
            "choose engine.name vllm for other models"
        )
    if getattr(config, "quantization_config", None):
        raise UnsupportedModel(
            "config.json has a quantization_config, but the torch engine serves plain weights only: "
            "choose engine.name vllm or an unquantized checkpoint"
        )
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        raise UnsupportedModel(
            "config.json switches sliding-window attention on, which the torch engine does not have: "
            "choose engine.name vllm"
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope not in ROPE_TYPES:
        raise UnsupportedModel(
            f"config.json asks for rope type {rope}, but the torch engine has {', '.join(ROPE_TYPES)}: "
            "choose engine.name vllm"
        )


def load_network(checkpoint: Checkpoint, dtype: Dtype, device: torch.device) -> Network:
    """Read the weights onto the device. Raises ModelUnreadable when a tensor is missing or has another shape."""
    disable_progress_bar()
    try:
        loader: Any = AutoModelForCausalLM
        network, report = loader.from_pretrained(
            checkpoint.folder,
            local_files_only=True,
            use_safetensors=True,
            dtype="auto" if dtype is Dtype.AUTO else getattr(torch, dtype.value),
            attn_implementation=ATTENTION_NAME,
            output_loading_info=True,
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelUnreadable(f"the weights in {checkpoint.folder} do not load: {error}") from error
    if missing := sorted(report["missing_keys"]):
        raise ModelUnreadable(
            f"the weights in {checkpoint.folder} lack {len(missing)} tensors that config.json asks for, "
            f"{missing[0]} first: download the checkpoint again"
        )
    return network.eval().requires_grad_(False).to(device)


def network_bytes(network: Network) -> int:
    """Bytes of all weights; tied ones count once."""
    return sum(weight.nbytes for weight in network.parameters())


def geometry(network: Network, block_size: int, contiguous: bool) -> Geometry:
    """The sizes of a loaded model."""
    config, attention = network.config, network.model.layers[0].self_attn
    return Geometry(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        vocabulary=config.vocab_size,
        kv_heads=config.num_key_value_heads,
        head_dim=attention.head_dim,
        block_size=block_size,
        dtype=network.dtype,
        contiguous=contiguous,
    )


def forward(network: Network, cache: KVCache, buffers: Buffers, prompt: bool) -> None:
    """One step of the model: from the inputs in `buffers` to its logits, writing keys and values into the cache.

    The decoder's own loop is not used: it builds masks that depend on sequence lengths, which a graph cannot have.
    """
    decoder = network.model
    attention = prompt_attention(cache, buffers) if prompt else decode_attention(cache, buffers)
    flat = buffers.tokens.flatten()
    hidden = torch.index_select(decoder.embed_tokens.weight, 0, flat, out=buffers.hidden)
    hidden = hidden.view(*buffers.tokens.shape, -1)
    positions = decoder.rotary_emb(hidden, buffers.positions)
    for layer in decoder.layers:
        hidden = layer(hidden, attention_mask=None, position_embeddings=positions, paged=attention)
    last = decoder.norm(hidden.flatten(0, 1)[buffers.last])
    buffers.logits.copy_(network.lm_head(last))
