"""Working memory of a forward pass: a formula for the widest moment of a layer (docs/memory.md, Workspace)."""

from gaudi_runtime.catalog.models.shape import Attention, Layer, Mlp, ModelShape

HIDDEN_COPIES = 5
"""Vectors of the hidden size that live at once: residual, sum, normed input, a layer's output and its reduction."""

LOGIT_BYTES = 4


def bytes_per_token(shape: ModelShape, tensor: int, dtype_bytes: int) -> int:
    """Bytes of one token at the widest moment of the widest layer on one of `tensor` ranks."""
    widest = max(_widest(layer, tensor) for layer in set(shape.layers))
    return dtype_bytes * (HIDDEN_COPIES * shape.hidden + widest)


def workspace_bytes(shape: ModelShape, tokens: int, sequences: int, tensor: int, dtype_bytes: int) -> int:
    """Bytes of a pass over `tokens` tokens of a batch, with the logits of `sequences` sequences over all ranks."""
    return tokens * bytes_per_token(shape, tensor, dtype_bytes) + LOGIT_BYTES * sequences * shape.vocab


def _widest(layer: Layer, tensor: int) -> int:
    """Numbers beside the hidden vectors: gate, up and their product, or queries, keys, values and their result."""
    return max(_attention(layer) // tensor, _feed_forward(layer) // tensor)


def _attention(layer: Layer) -> int:
    attention = layer.attention
    if isinstance(attention, Attention):
        return 2 * (attention.heads + attention.kv_heads) * attention.head_dim
    return attention.heads * (2 * (attention.nope_dim + attention.rope_dim) + 2 * attention.value_dim)


def _feed_forward(layer: Layer) -> int:
    part = layer.feed_forward
    if isinstance(part, Mlp):
        return 3 * part.intermediate if part.gated else 2 * part.intermediate
    return 3 * (part.active * part.intermediate + part.shared_intermediate)
