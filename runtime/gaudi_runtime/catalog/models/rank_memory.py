"""The memory of one card in a tensor- and pipeline-parallel group: weights, KV blocks and workspace.

All sizes are in bytes. See docs/internals/warmup.md, Shapes and Workspace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gaudi_runtime.catalog.models.shape import LayerShape, ModelShape
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import PlanImpossible

QUANTIZED_BITS = {
    QuantizationMethod.INC: 8,
    QuantizationMethod.FP8: 8,
    QuantizationMethod.AWQ: 4,
    QuantizationMethod.GPTQ: 4,
    QuantizationMethod.COMPRESSED_TENSORS: 8,
    QuantizationMethod.MODELOPT: 8,
    QuantizationMethod.MXFP4: 4,
}
"""The usual bits of a weight for each method."""


@dataclass(frozen=True)
class StageMemory:
    """The fullest card of a pipeline stage: its weights, one KV block, and the states of one sequence."""

    weight_bytes: int
    block_bytes: int
    state_bytes: int = 0


@dataclass(frozen=True)
class RankSpread:
    """The distribution of a model over ranks, and the bytes of a weight and of a number in the KV cache.

    `quantization` is the method that the deployment asks for. `expert_ranks` is None if the tensor-parallel ranks split
    every expert like any other matrix.
    """

    tensor_ranks: int
    pipeline_stages: int
    dtype_bytes: int
    kv_dtype_bytes: int
    quantization: QuantizationMethod | None = None
    expert_ranks: int | None = None


def _check_ranks(shape: ModelShape, tensor_ranks: int, stages: int) -> None:
    """Raise PlanImpossible if the attention heads or the layers cannot be divided among the ranks."""
    uneven_heads = [layer.heads for layer in shape.layers if layer.heads % tensor_ranks]
    if uneven_heads:
        raise PlanImpossible(
            f"parallelism.tensor is {tensor_ranks}, but must be a divisor of the model's number of attention heads, "
            f"{uneven_heads[0]}"
        )
    if stages > len(shape.layers):
        raise PlanImpossible(
            f"parallelism.pipeline is {stages}, but must be at most the model's number of layers, {len(shape.layers)}"
        )


def stage_memory(shape: ModelShape, spread: RankSpread, block_size: int) -> tuple[StageMemory, ...]:
    """Return the memory of every pipeline stage. `block_size` is in tokens.

    Raises PlanImpossible for impossible ranks.
    """
    _check_ranks(shape, spread.tensor_ranks, spread.pipeline_stages)
    stages = stage_layers(shape.layers, spread.pipeline_stages)
    embedding, layers_bytes = _loaded_bytes(shape, spread)
    total_width = sum(layer.shared_matrices + layer.experts for layer in shape.layers)
    # If the output head shares the weights of the embeddings, the last stage of several needs a copy of them.
    embedding_copies = [int(index == 0) + int(index == len(stages) - 1) for index in range(len(stages))]
    if len(stages) == 1:
        embedding_copies = [shape.embedding_matrices]
    return tuple(
        StageMemory(
            weight_bytes=copies * -(-embedding // spread.tensor_ranks)
            + ceil(layers_bytes * _rank_width(stage, spread) / total_width),
            block_bytes=_kv_block_bytes(stage, spread, block_size),
            state_bytes=sum(-(-layer.state_bytes // spread.tensor_ranks) for layer in stage),
        )
        for stage, copies in zip(stages, embedding_copies, strict=True)
    )


def _loaded_bytes(shape: ModelShape, spread: RankSpread) -> tuple[int, int]:
    """Return the bytes of one embedding matrix, and of everything else, as a server loads them."""
    embedding = shape.vocab * shape.hidden * spread.dtype_bytes
    file_bytes = shape.file_bytes or shape.parameters * shape.dtype_bytes
    if shape.quantization is QuantizationMethod.MXFP4:
        # The plugin converts these weights while it loads them (HPU_MXFP4_NATIVE is off by default).
        file_bytes = shape.parameters * spread.dtype_bytes
    elif shape.quantization is None:
        file_bytes = file_bytes * spread.dtype_bytes // shape.dtype_bytes
    elif shape.file_bytes is None:
        file_bytes = file_bytes * QUANTIZED_BITS[shape.quantization] // (8 * shape.dtype_bytes)
    layers_bytes = max(0, file_bytes - shape.embedding_matrices * embedding)
    if shape.quantization is None and spread.quantization is not None:
        layers_bytes = layers_bytes * QUANTIZED_BITS[spread.quantization] // (8 * spread.dtype_bytes)
    return embedding, layers_bytes


def _rank_width(layers: Sequence[LayerShape], spread: RankSpread) -> float:
    """Return the width of the matrices of these layers on one card."""
    expert_ranks = spread.expert_ranks or spread.tensor_ranks
    return sum(layer.shared_matrices / spread.tensor_ranks + layer.experts / expert_ranks for layer in layers)


def stage_layers(layers: Sequence[LayerShape], stage_count: int) -> list[Sequence[LayerShape]]:
    """Divide the layers among pipeline stages in the same way as vLLM."""
    layer_counts = [len(layers) // stage_count] * stage_count
    # The remaining layers go to the stages before the last one, because the last stage also holds the output head.
    for extra in range(len(layers) % stage_count):
        layer_counts[-(extra + 2)] += 1
    ends = [sum(layer_counts[: index + 1]) for index in range(stage_count)]
    return [layers[end - count : end] for end, count in zip(ends, layer_counts, strict=True)]


def _kv_block_bytes(layers: Sequence[LayerShape], spread: RankSpread, block_size: int) -> int:
    """Return the bytes of one KV block of `block_size` tokens for these layers on one card.

    A head is on one card. With more cards than heads, several cards hold the same head.
    """
    numbers = sum(-(-layer.kv_heads // spread.tensor_ranks) * layer.cache_width for layer in layers)
    return block_size * numbers * spread.kv_dtype_bytes


# The vectors of the hidden size that are in memory at the same time: residual, sum, normed input, output of a layer and
# its reduction.
HIDDEN_COPIES = 5
# Logits are computed in 32 bits for every data type of the model.
LOGIT_BYTES = 4


def rank_bytes_per_token(shape: ModelShape, ranks: int, dtype_bytes: int) -> int:
    """Return the bytes of one token on one of `ranks` ranks, in the widest step of the widest layer."""
    # The widest step is attention (queries, keys, values and their result) or feed-forward (gate, up and their
    # product).
    max_width = max(
        max(layer.attention // ranks, (layer.feed_forward + layer.active) // ranks) for layer in set(shape.layers)
    )
    return dtype_bytes * (HIDDEN_COPIES * shape.hidden + max_width)


def rank_workspace_bytes(shape: ModelShape, tokens: int, sequences: int, ranks: int, dtype_bytes: int) -> int:
    """Return the workspace bytes of a forward pass over `tokens` tokens, including logits of `sequences` sequences."""
    return tokens * rank_bytes_per_token(shape, ranks, dtype_bytes) + LOGIT_BYTES * sequences * shape.vocab
