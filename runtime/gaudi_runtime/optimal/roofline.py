"""From a model's shape and a card's data sheet to the Roofline cost (docs/traffic.md, Cost)."""

from collections import Counter

from gaudi_runtime.cards.card import Card
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.models.ranks import Spread, kv_block_bytes, stages
from gaudi_runtime.models.shape import Attention, Experts, Layer, ModelShape
from gaudi_runtime.models.tensors import Role, Tensor, head, layer_tensors
from gaudi_runtime.optimal.cost import Roofline


def roofline_of(shape: ModelShape, spread: Spread, card: Card, block_size: int) -> Roofline:
    """Seconds of a forward pass on one card, were the whole model on it in the number formats of `spread`.

    More ranks divide arithmetic and traffic alike, so shares stay as they are. Raises ConfigError for a card whose
    speed is not described.
    """
    if card.bf16_matmul is None or card.bandwidth is None:
        raise ConfigError(f"the speed of card {card.name} is not described; a roofline needs gaudi2 or gaudi3")
    whole = Spread(1, 1, spread.dtype_bytes, spread.kv_dtype_bytes, spread.quantization)
    return Roofline(
        block_size=block_size,
        matmul_weights=head(shape).parameters + sum(n * _visited(each, shape) for each, n in _layers(shape)),
        attention_width=sum(n * _width(each) for each, n in _layers(shape)),
        weight_bytes=sum(stage.weights for stage in stages(shape, whole, block_size)),
        kv_bytes_per_token=kv_block_bytes(shape.layers, whole, 1),
        operations_per_second=card.bf16_matmul.value,
        bytes_per_second=card.bandwidth.value,
    )


def _layers(shape: ModelShape) -> list[tuple[Layer, int]]:
    return list(Counter(shape.layers).items())


def _visited(layer: Layer, shape: ModelShape) -> float:
    """Weights of a layer that one token is multiplied with: all but vectors, and of the experts the active ones."""
    return sum(tensor.parameters * _share(tensor, layer) for tensor in layer_tensors(layer, shape.hidden))


def _share(tensor: Tensor, layer: Layer) -> float:
    if tensor.role is Role.EXPERT and isinstance(layer.feed_forward, Experts):
        return layer.feed_forward.active / layer.feed_forward.count
    return 0.0 if tensor.role is Role.VECTOR else 1.0


def _width(layer: Layer) -> float:
    """Query heads times head dimension; with latent attention the mean of what scores and values are computed on."""
    attention = layer.attention
    if isinstance(attention, Attention):
        return attention.heads * attention.head_dim
    return attention.heads * (attention.nope_dim + attention.rope_dim + attention.value_dim) / 2
