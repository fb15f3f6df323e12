"""ModelShape: the dimensions of a decoder-only model, as far as memory depends on them.

See docs/internals/memory.md, Shapes.
"""

from dataclasses import dataclass

from gaudi_runtime.catalog.models.quantization import Quantization


@dataclass(frozen=True)
class Attention:
    """Multi-head (kv_heads = heads), grouped-query and multi-query (kv_heads = 1) attention."""

    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    query_key_norm: bool = False
    window: int | None = None
    """Tokens that a layer looks back; None for all. The KV cache of a Gaudi server holds all tokens either way."""


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: the cache holds one vector of `kv_rank + rope_dim` numbers per token."""

    heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True)
class Mlp:
    """A feed-forward network of two (not gated) or three (gated) matrices."""

    intermediate: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: every token visits `active` of `count` experts, and all shared experts."""

    count: int
    active: int
    intermediate: int
    shared_intermediate: int = 0
    shared_gate: bool = False
    router_bias: bool = False


@dataclass(frozen=True)
class Layer:
    """One decoder layer; `norms` vectors of the hidden size."""

    attention: Attention | LatentAttention
    feed_forward: Mlp | Experts
    norms: int = 2


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only model. `dtype_bytes` is that of the checkpoint's unquantized tensors.

    `extra_parameters` are outside the decoder (a vision tower). They are counted, and every rank holds all of them.
    """

    family: str
    hidden: int
    layers: tuple[Layer, ...]
    vocab: int
    tied_embeddings: bool
    dtype_bytes: int = 2
    quantization: Quantization | None = None
    extra_parameters: int = 0
    name: str | None = None
    """The repository that the shape was found by; None when it was read from a checkpoint."""
