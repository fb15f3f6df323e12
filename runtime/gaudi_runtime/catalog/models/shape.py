"""ModelShape: the dimensions of a decoder-only model that memory depends on.

See docs/internals/warmup.md, Shapes.
"""

from dataclasses import dataclass

from gaudi_runtime.catalog.models.quantization import Quantization


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention. It is multi-head if `kv_heads` equals `heads`, and multi-query if `kv_heads` is 1."""

    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    query_key_norm: bool = False
    sliding_window: int | None = None
    """Tokens that a layer looks back; None for all. The KV cache of a Gaudi server holds all tokens either way."""


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention. The KV cache stores one vector of `kv_rank + rope_dim` numbers per token."""

    heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True)
class Mlp:
    """A feed-forward network with two matrices, or with three if it is gated."""

    intermediate: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True)
class Experts:
    """A mixture of experts. Every token uses `active` of `count` experts, and all shared experts."""

    count: int
    active: int
    intermediate: int
    shared_intermediate: int = 0
    shared_gate: bool = False
    router_bias: bool = False


@dataclass(frozen=True)
class Layer:
    """One decoder layer. `norms` is the number of norm vectors, which have the hidden size."""

    attention: Attention | LatentAttention
    feed_forward: Mlp | Experts
    norms: int = 2


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only model. `dtype_bytes` is the bytes of a number in the checkpoint's unquantized tensors.

    `extra_parameters` is the number of parameters outside the decoder, such as a vision tower. Every rank stores all of
    these parameters.
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
