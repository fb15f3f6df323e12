"""The weight tensors of a model: their sizes, their stored bytes, and their division among ranks.

See docs/internals/warmup.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gaudi_runtime.catalog.models.quantization import Quantization
from gaudi_runtime.catalog.models.shape import Attention, Experts, LatentAttention, Layer, Mlp, ModelShape


class TensorSplit(StrEnum):
    """The way in which a tensor is divided among ranks: by outputs, by inputs, or not at all."""

    OUTPUTS = "outputs"
    INPUTS = "inputs"
    WHOLE = "whole"


class Role(StrEnum):
    """The role of a tensor in the model, which decides whether it is quantized."""

    EMBEDDING = "embedding"
    HEAD = "head"
    ATTENTION = "attention"
    FEED_FORWARD = "feedForward"
    EXPERT = "expert"
    VECTOR = "vector"
    ROUTER = "router"


@dataclass(frozen=True)
class Tensor:
    """A weight tensor with `copies` matrices of `outputs` x `inputs`. A vector has one input.

    The outputs are divided into at most `max_parts` parts.
    """

    role: Role
    outputs: int
    inputs: int = 1
    split: TensorSplit = TensorSplit.WHOLE
    copies: int = 1
    max_parts: int | None = None

    @property
    def parameter_count(self) -> int:
        """The number of parameters in all copies."""
        return self.copies * self.outputs * self.inputs

    def largest_shard(self, ranks: int) -> "Tensor":
        """Return the part of the tensor on the fullest of `ranks` tensor-parallel ranks."""
        # A key matrix of 8 heads is divided into at most 8 parts. With more than 8 ranks, several ranks hold the same
        # head.
        parts = min(ranks, self.max_parts or ranks)
        if self.split is TensorSplit.OUTPUTS:
            return Tensor(self.role, -(-self.outputs // parts), self.inputs, TensorSplit.WHOLE, self.copies)
        if self.split is TensorSplit.INPUTS:
            return Tensor(self.role, self.outputs, -(-self.inputs // parts), TensorSplit.WHOLE, self.copies)
        return self

    def largest_expert_shard(self, ranks: int) -> "Tensor":
        """Return the routed experts on the fullest of `ranks` expert-parallel ranks."""
        return Tensor(self.role, self.outputs, self.inputs, TensorSplit.WHOLE, -(-self.copies // ranks))


def embedding_tensor(shape: ModelShape) -> Tensor:
    """Return the tensor of a model's token embeddings."""
    return Tensor(Role.EMBEDDING, shape.vocab, shape.hidden, TensorSplit.OUTPUTS)


def output_head_tensor(shape: ModelShape) -> Tensor:
    """Return the tensor of the output head, for a model whose output head is not tied to the embeddings."""
    return Tensor(Role.HEAD, shape.vocab, shape.hidden, TensorSplit.OUTPUTS)


def final_norm_tensor(shape: ModelShape) -> Tensor:
    """Return the norm before the output head."""
    return Tensor(Role.VECTOR, shape.hidden)


def layer_tensors(layer: Layer, hidden: int) -> Iterator[Tensor]:
    """Yield all weight tensors of a decoder layer."""
    if isinstance(layer.attention, Attention):
        yield from _attention_tensors(layer.attention, hidden)
    else:
        yield from _latent_attention_tensors(layer.attention, hidden)
    if isinstance(layer.feed_forward, Mlp):
        yield from _mlp_tensors(layer.feed_forward, hidden)
    else:
        yield from _expert_tensors(layer.feed_forward, hidden)
    yield Tensor(Role.VECTOR, hidden, copies=layer.norms)


def _attention_tensors(attention: Attention, hidden: int) -> Iterator[Tensor]:
    query_width, key_width = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
    projections = ((query_width, attention.heads, 1), (key_width, attention.kv_heads, 2))
    for width, heads, copies in projections:
        yield Tensor(Role.ATTENTION, width, hidden, TensorSplit.OUTPUTS, copies, max_parts=heads)
        if attention.qkv_bias:
            yield Tensor(Role.VECTOR, width, split=TensorSplit.OUTPUTS, copies=copies, max_parts=heads)
    yield Tensor(Role.ATTENTION, hidden, query_width, TensorSplit.INPUTS)
    if attention.out_bias:
        yield Tensor(Role.VECTOR, hidden)
    if attention.query_key_norm:
        yield Tensor(Role.VECTOR, attention.head_dim, copies=2)


def _latent_attention_tensors(attention: LatentAttention, hidden: int) -> Iterator[Tensor]:
    heads = attention.heads
    query_width = heads * (attention.nope_dim + attention.rope_dim)
    if attention.query_rank is None:
        yield Tensor(Role.ATTENTION, query_width, hidden, TensorSplit.OUTPUTS)
    else:
        yield Tensor(Role.ATTENTION, attention.query_rank, hidden)
        yield Tensor(Role.VECTOR, attention.query_rank)
        yield Tensor(Role.ATTENTION, query_width, attention.query_rank, TensorSplit.OUTPUTS)
    yield Tensor(Role.ATTENTION, attention.kv_rank + attention.rope_dim, hidden)
    yield Tensor(Role.VECTOR, attention.kv_rank)
    yield Tensor(
        Role.ATTENTION, heads * (attention.nope_dim + attention.value_dim), attention.kv_rank, TensorSplit.OUTPUTS
    )
    yield Tensor(Role.ATTENTION, hidden, heads * attention.value_dim, TensorSplit.INPUTS)


def _mlp_tensors(mlp: Mlp, hidden: int) -> Iterator[Tensor]:
    copies = 2 if mlp.gated else 1
    yield Tensor(Role.FEED_FORWARD, mlp.intermediate, hidden, TensorSplit.OUTPUTS, copies)
    yield Tensor(Role.FEED_FORWARD, hidden, mlp.intermediate, TensorSplit.INPUTS)
    if mlp.bias:
        yield Tensor(Role.VECTOR, mlp.intermediate, split=TensorSplit.OUTPUTS, copies=copies)
        yield Tensor(Role.VECTOR, hidden)


def _expert_tensors(experts: Experts, hidden: int) -> Iterator[Tensor]:
    yield Tensor(Role.ROUTER, experts.count, hidden)
    if experts.router_bias:
        yield Tensor(Role.VECTOR, experts.count)
    for _ in ("gate", "up"):
        yield Tensor(Role.EXPERT, experts.intermediate, hidden, TensorSplit.OUTPUTS, experts.count)
    yield Tensor(Role.EXPERT, hidden, experts.intermediate, TensorSplit.INPUTS, experts.count)
    if experts.shared_intermediate:
        yield from _mlp_tensors(Mlp(experts.shared_intermediate), hidden)
    if experts.shared_gate:
        yield Tensor(Role.ROUTER, 1, hidden)


SCALE_BYTES = 2
BLOCK_SCALE_BYTES = 4
INDEX_BYTES = 4


def stored_bytes(tensor: Tensor, dtype_bytes: int, quantization: Quantization | None) -> int:
    """Return the stored bytes of all copies of a tensor. `dtype_bytes` applies to unquantized tensors."""
    if quantization is None or not _is_quantized(tensor.role, quantization):
        return tensor.parameter_count * dtype_bytes
    return tensor.copies * _matrix_bytes(tensor.outputs, tensor.inputs, quantization)


def _is_quantized(role: Role, quantization: Quantization) -> bool:
    if role is Role.ATTENTION:
        return quantization.quantizes_attention
    return role in (Role.FEED_FORWARD, Role.EXPERT) or (role is Role.HEAD and quantization.quantizes_head)


def _matrix_bytes(outputs: int, inputs: int, quantization: Quantization) -> int:
    return -(-outputs * inputs * quantization.bits // 8) + _quantization_metadata_bytes(outputs, inputs, quantization)


def _quantization_metadata_bytes(outputs: int, inputs: int, quantization: Quantization) -> int:
    """Return the bytes of the scales, the zero points, and the 4-byte group number that GPTQ stores for every input."""
    if quantization.block_edge is not None:
        return BLOCK_SCALE_BYTES * -(-outputs // quantization.block_edge) * -(-inputs // quantization.block_edge)
    groups = -(-inputs // quantization.group_size) if quantization.group_size else 1
    zero_point_bytes = -(-groups * outputs * quantization.bits // 8) if quantization.zero_points else 0
    index_bytes = INDEX_BYTES * inputs if quantization.group_index else 0
    return SCALE_BYTES * groups * outputs + zero_point_bytes + index_bytes
