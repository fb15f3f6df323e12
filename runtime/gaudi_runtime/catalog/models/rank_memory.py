"""The memory of one card in a tensor- and pipeline-parallel group: weights, KV blocks and workspace.

All sizes are in bytes. See docs/internals/warmup.md, Shapes and Workspace.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gaudi_runtime.catalog.models.quantization import Quantization
from gaudi_runtime.catalog.models.shape import Attention, Layer, Mlp, ModelShape
from gaudi_runtime.catalog.models.tensors import (
    Role,
    Tensor,
    embedding_tensor,
    final_norm_tensor,
    layer_tensors,
    output_head_tensor,
    stored_bytes,
)
from gaudi_runtime.errors import PlanImpossible

# vLLM pads the vocabulary to a multiple of this step before it divides the vocabulary among ranks.
VOCABULARY_STEP = 64


@dataclass(frozen=True)
class StageMemory:
    """The fullest card of a pipeline stage: its weights, and one KV block for all layers of the stage."""

    weight_bytes: int
    block_bytes: int


@dataclass(frozen=True)
class Spread:
    """The distribution of a model over ranks, and the bytes of a weight and of a number in the KV cache.

    `expert_ranks` is None if the tensor-parallel ranks split every expert like any other matrix.
    """

    tensor_ranks: int
    pipeline_stages: int
    dtype_bytes: int
    kv_dtype_bytes: int
    quantization: Quantization | None = None
    expert_ranks: int | None = None


def check_ranks(shape: ModelShape, tensor_ranks: int, stages: int) -> None:
    """Raise PlanImpossible if the attention heads or the layers cannot be divided among the ranks."""
    uneven_heads = [layer.attention.heads for layer in shape.layers if layer.attention.heads % tensor_ranks]
    if uneven_heads:
        raise PlanImpossible(
            f"parallelism.tensor is {tensor_ranks}, but must be a divisor of the model's number of attention heads, "
            f"{uneven_heads[0]}"
        )
    if stages > len(shape.layers):
        raise PlanImpossible(
            f"parallelism.pipeline is {stages}, but must be at most the model's number of layers, {len(shape.layers)}"
        )


def stage_memory(shape: ModelShape, spread: Spread, block_size: int) -> tuple[StageMemory, ...]:
    """Return the memory of every pipeline stage. `block_size` is in tokens.

    Raises PlanImpossible for impossible ranks.
    """
    check_ranks(shape, spread.tensor_ranks, spread.pipeline_stages)
    stages = stage_layers(shape.layers, spread.pipeline_stages)
    last_index = len(stages) - 1
    return tuple(
        StageMemory(
            weight_bytes=_weight_bytes(_stage_tensors(shape, stage, index == 0, index == last_index), spread)
            # The first stage also loads all parts outside the decoder, such as a vision tower. These parts are never
            # quantized.
            + (shape.extra_parameters * shape.dtype_bytes if index == 0 else 0),
            block_bytes=kv_block_bytes(stage, spread, block_size),
        )
        for index, stage in enumerate(stages)
    )


def stage_layers(layers: Sequence[Layer], stage_count: int) -> list[Sequence[Layer]]:
    """Divide the layers among pipeline stages in the same way as vLLM."""
    layer_counts = [len(layers) // stage_count] * stage_count
    # The remaining layers go to the stages before the last one, because the last stage also holds the output head.
    for extra in range(len(layers) % stage_count):
        layer_counts[-(extra + 2)] += 1
    ends = [sum(layer_counts[: index + 1]) for index in range(stage_count)]
    return [layers[end - count : end] for end, count in zip(ends, layer_counts, strict=True)]


def kv_block_bytes(layers: Sequence[Layer], spread: Spread, block_size: int) -> int:
    """Return the bytes of one KV block of `block_size` tokens for these layers on one card."""
    return sum(count * _layer_block_bytes(layer, spread, block_size) for layer, count in Counter(layers).items())


def _layer_block_bytes(layer: Layer, spread: Spread, block_size: int) -> int:
    attention = layer.attention
    if isinstance(attention, Attention):
        kv_heads = -(-attention.kv_heads // spread.tensor_ranks)
        return block_bytes(block_size, kv_heads, attention.head_dim, spread.kv_dtype_bytes, layer_count=1)
    return latent_block_bytes(block_size, attention.kv_rank + attention.rope_dim, spread.kv_dtype_bytes, layer_count=1)


def block_bytes(block_size: int, kv_heads: int, head_dim: int, dtype_bytes: int, layer_count: int) -> int:
    """Return the bytes of one KV block: keys and values of `block_size` tokens in all layers of one card.

    `kv_heads` is the number of KV heads on one card: the model's KV heads divided by the tensor-parallel size, and at
    least 1.
    """
    return 2 * block_size * kv_heads * head_dim * dtype_bytes * layer_count


def latent_block_bytes(block_size: int, latent_dim: int, dtype_bytes: int, layer_count: int) -> int:
    """Return the bytes of one KV block with latent attention, which stores one vector per token.

    `latent_dim` is the compressed rank plus the rotary part. Every card stores the whole vector.
    """
    return block_size * latent_dim * dtype_bytes * layer_count


def _stage_tensors(shape: ModelShape, layers: Sequence[Layer], first: bool, last: bool) -> Iterator[tuple[Tensor, int]]:
    """Yield the tensors of a stage, each with its number of occurrences."""
    for layer, count in Counter(layers).items():
        yield from ((tensor, count) for tensor in layer_tensors(layer, shape.hidden))
    padded_vocab = -(-shape.vocab // VOCABULARY_STEP) * VOCABULARY_STEP
    # If the output head shares the weights of the embeddings, the last stage needs a copy of the embeddings.
    if first or (last and shape.tied_embeddings):
        yield replace(embedding_tensor(shape), outputs=padded_vocab), 1
    if last and not shape.tied_embeddings:
        yield replace(output_head_tensor(shape), outputs=padded_vocab), 1
    if last:
        yield final_norm_tensor(shape), 1


def _weight_bytes(tensors: Iterator[tuple[Tensor, int]], spread: Spread) -> int:
    return sum(
        count * stored_bytes(_largest_shard(tensor, spread), spread.dtype_bytes, spread.quantization)
        for tensor, count in tensors
    )


def _largest_shard(tensor: Tensor, spread: Spread) -> Tensor:
    if tensor.role is Role.EXPERT and spread.expert_ranks:
        return tensor.largest_expert_shard(spread.expert_ranks)
    return tensor.largest_shard(spread.tensor_ranks)


# The vectors of the hidden size that are in memory at the same time: residual, sum, normed input, output of a layer and
# its reduction.
HIDDEN_COPIES = 5
# Logits are computed in 32 bits for every data type of the model.
LOGIT_BYTES = 4


def bytes_per_token(shape: ModelShape, ranks: int, dtype_bytes: int) -> int:
    """Return the bytes of one token on one of `ranks` ranks, in the widest step of the widest layer."""
    # The widest step is attention (queries, keys, values and their result) or feed-forward (gate, up and their
    # product).
    max_width = max(
        max(_attention_width(layer) // ranks, _feed_forward_width(layer) // ranks) for layer in set(shape.layers)
    )
    return dtype_bytes * (HIDDEN_COPIES * shape.hidden + max_width)


def workspace_bytes(shape: ModelShape, tokens: int, sequences: int, ranks: int, dtype_bytes: int) -> int:
    """Return the workspace bytes of a forward pass over `tokens` tokens, including logits of `sequences` sequences."""
    return tokens * bytes_per_token(shape, ranks, dtype_bytes) + LOGIT_BYTES * sequences * shape.vocab


def _attention_width(layer: Layer) -> int:
    attention = layer.attention
    if isinstance(attention, Attention):
        return 2 * (attention.heads + attention.kv_heads) * attention.head_dim
    return attention.heads * (2 * (attention.nope_dim + attention.rope_dim) + 2 * attention.value_dim)


def _feed_forward_width(layer: Layer) -> int:
    feed_forward = layer.feed_forward
    if isinstance(feed_forward, Mlp):
        return 3 * feed_forward.intermediate if feed_forward.gated else 2 * feed_forward.intermediate
    return 3 * (feed_forward.active * feed_forward.intermediate + feed_forward.shared_intermediate)
