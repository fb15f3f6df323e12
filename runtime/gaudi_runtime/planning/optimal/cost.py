"""The cost model of strategy `Optimal`: the compute of a padded batch, and the price of preparing a bucket.

The cost model is a function, so that callers can pass a better one. It returns tokens, or seconds by the Roofline of a
model's shape and a card's data sheet (docs/internals/optimal.md, Cost). The cost must not decrease if a dimension of a
shape increases. The unit of the cost does not matter, because only ratios are used. A price is one graph, bytes of
graph memory, or seconds of warm-up.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.cards import GAUDI2_RATES, Card
from gaudi_runtime.catalog.models.rank_memory import Spread, kv_block_bytes, stage_memory
from gaudi_runtime.catalog.models.shape import Attention, Experts, Layer, ModelShape
from gaudi_runtime.catalog.models.tensors import Role, Tensor, layer_tensors, output_head_tensor
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.traffic.histogram import Traffic, total_weight

Cost = Callable[[BucketPhase, Bucket], float]


def token_cost(block_size: int) -> Cost:
    """Return a cost model that counts the computed tokens and the tokens that attention reads from the KV cache.

    Prompt: batch * (query + context blocks * block_size). Decode: batch + KV blocks * block_size.
    """

    def cost(phase: BucketPhase, shape: Bucket) -> float:
        blocks = shape.num_blocks if phase is BucketPhase.DECODE else shape.batch_size * shape.num_blocks
        return float(shape.batch_size * shape.query_len + blocks * block_size)

    return cost


# Costs are in units of the time to read one token of the KV cache. For Llama 3.1 8B in bfloat16 on a Gaudi 3, a unit is
# 35 ns (131,072 bytes at 3.7 TB/s). The figures of the data sheets are for Llama 3.1 8B and 70B on Gaudi 3, and for 8B
# on Gaudi 2.
WEIGHTS_READS = 131_072
"""The cost of reading all weights once for a forward pass (data sheets: 123,000, 431,000 and 123,000 units)."""
TOKEN_READS = 512
"""The cost of multiplying one token with all weights (data sheets: 250, 870 and 700 units)."""
SEEN_TOKENS = 64
"""The number of earlier tokens to which one token attends at the cost of one unit (data sheets: 124, 62 and 44)."""


def typical_cost(block_size: int) -> Cost:
    """Return the cost model of a typical dense model, which includes reading weights and KV cache, and computation.

    The unit is the time to read one token of the KV cache. The constants are rounded from the data sheets of two cards
    and the shapes of two models. For a known model and card, Roofline is more exact.
    """

    def cost(phase: BucketPhase, shape: Bucket) -> float:
        tokens = shape.batch_size * shape.query_len
        blocks = shape.num_blocks if phase is BucketPhase.DECODE else shape.batch_size * shape.num_blocks
        cached_tokens = blocks * block_size
        # Each new token attends to all cached tokens and all new tokens of its sequence. A graph masks later tokens but
        # does not skip their computation.
        attended_tokens = cached_tokens * shape.query_len + tokens * shape.query_len
        return WEIGHTS_READS + TOKEN_READS * tokens + attended_tokens / SEEN_TOKENS + cached_tokens

    return cost


@dataclass(frozen=True)
class Roofline:
    """A cost model in seconds of a forward pass: the longer of computation and memory traffic.

    `matmul_weights` is the number of weights that a token is multiplied with. `attention_width` is layers * query heads
    * head dimension. `weight_bytes` and `kv_bytes_per_token` are read from memory. `operations_per_second` and
    `bytes_per_second` are the speed of the card.
    """

    block_size: int
    matmul_weights: float
    attention_width: float
    weight_bytes: float
    kv_bytes_per_token: float
    operations_per_second: float
    bytes_per_second: float

    def __call__(self, phase: BucketPhase, shape: Bucket) -> float:
        """Return the seconds of one batch of this shape."""
        tokens = shape.batch_size * shape.query_len
        cached_tokens = shape.num_blocks * self.block_size * (1 if phase is BucketPhase.DECODE else shape.batch_size)
        # Attention has two matmuls: the scores, and the product of scores and values. Each new token attends to all
        # cached and all new tokens of its sequence, because a graph with static shapes masks tokens but does not skip
        # their computation.
        attended_tokens = cached_tokens * shape.query_len + tokens * shape.query_len
        # One multiplication with one addition counts as two operations, as in the data sheets.
        operations = 2 * self.matmul_weights * tokens + 4 * self.attention_width * attended_tokens
        bytes_read = self.weight_bytes + self.kv_bytes_per_token * (cached_tokens + tokens)
        return max(operations / self.operations_per_second, bytes_read / self.bytes_per_second)


def make_roofline(shape: ModelShape, spread: Spread, card: Card, block_size: int) -> Roofline:
    """Return the roofline cost model of a model on one card, with the number formats of `spread`.

    The whole model is assumed to be on one card. Raises ConfigError for a card whose speed is unknown.
    """
    if card.bf16_matmul is None or card.bandwidth is None:
        raise ConfigError(f"the speed of card {card.name} is unknown. A roofline needs card gaudi2 or gaudi3")
    # A single rank is assumed. More ranks divide computation and memory traffic equally, so ratios of costs stay the
    # same.
    single_rank = Spread(1, 1, spread.dtype_bytes, spread.kv_dtype_bytes, spread.quantization)
    return Roofline(
        block_size=block_size,
        matmul_weights=output_head_tensor(shape).parameter_count
        + sum(layer_count * _active_weights(layer, shape) for layer, layer_count in _count_layers(shape)),
        attention_width=sum(layer_count * _attention_width(layer) for layer, layer_count in _count_layers(shape)),
        weight_bytes=sum(stage.weight_bytes for stage in stage_memory(shape, single_rank, block_size)),
        kv_bytes_per_token=kv_block_bytes(shape.layers, single_rank, 1),
        operations_per_second=card.bf16_matmul.value,
        bytes_per_second=card.bandwidth.value,
    )


def _count_layers(shape: ModelShape) -> list[tuple[Layer, int]]:
    return list(Counter(shape.layers).items())


def _active_weights(layer: Layer, shape: ModelShape) -> float:
    """Return the number of weights of a layer that one token is multiplied with.

    Vectors and inactive experts do not count.
    """
    return sum(tensor.parameter_count * _active_share(tensor, layer) for tensor in layer_tensors(layer, shape.hidden))


def _active_share(tensor: Tensor, layer: Layer) -> float:
    if tensor.role is Role.EXPERT and isinstance(layer.feed_forward, Experts):
        return layer.feed_forward.active / layer.feed_forward.count
    return 0.0 if tensor.role is Role.VECTOR else 1.0


def _attention_width(layer: Layer) -> float:
    """Return query heads times head dimension. With latent attention, use the mean dimension of scores and values."""
    attention = layer.attention
    if isinstance(attention, Attention):
        return attention.heads * attention.head_dim
    return attention.heads * (attention.nope_dim + attention.rope_dim + attention.value_dim) / 2


Price = Callable[[BucketPhase, Bucket], float]


def price_in_graphs(_phase: BucketPhase, _bucket: Bucket) -> float:
    """Return 1 as the price of every bucket, for a budget of graphs."""
    return 1.0


def price_in_bytes(block_size: int) -> Price:
    """Return a price function for a budget of memory: the bytes of a graph, by the rates of the logged Gaudi 2.

    See docs/internals/memory.md, Cards.
    """
    rates = {
        BucketPhase.PROMPT: GAUDI2_RATES.prompt_graph_bytes_per_token.value,
        BucketPhase.DECODE: GAUDI2_RATES.decode_graph_bytes_per_sequence.value,
    }
    return lambda phase, bucket: rates[phase] * bucket_weight(phase, bucket, block_size)


def price_in_seconds(phase: BucketPhase, _bucket: Bucket) -> float:
    """Return the price of a bucket for a budget of time: its warm-up seconds, by the rates of the logged Gaudi 2.

    See docs/internals/memory.md.
    """
    if phase is BucketPhase.PROMPT:
        return GAUDI2_RATES.prompt_compile_seconds.value + GAUDI2_RATES.prompt_capture_seconds.value
    return GAUDI2_RATES.decode_compile_seconds.value + GAUDI2_RATES.decode_capture_seconds.value


@dataclass(frozen=True)
class PlanScore:
    """The score of a plan by the cost model, for traffic of one phase: its graphs, padding and coverage.

    `graphs` counts the buckets of the phase. `padding` is the padded cost divided by the real cost, for traffic that
    has a bucket. 1.0 means no padding; None means that no traffic has a bucket. `coverage` is the share of the traffic
    that has a bucket, or None if there is no traffic.
    """

    graphs: int
    padding: float | None
    coverage: float | None


def score_plan(plan: BucketPlan, phase: BucketPhase, traffic: Traffic, cost: Cost) -> PlanScore:
    """Score a plan for the traffic of one phase. `find` of the plan returns the bucket that a shape is padded to."""
    padded_cost = real_cost = covered_batches = 0.0
    for shape, batches in traffic.shapes_of(phase).items():
        bucket = plan.find(phase, *shape)
        if bucket:
            covered_batches += batches
            padded_cost += batches * cost(phase, bucket)
            real_cost += batches * cost(phase, shape)
    total_batches = total_weight(traffic.shapes_of(phase))
    return PlanScore(
        graphs=len(plan.buckets_of(phase)),
        padding=padded_cost / real_cost if real_cost else None,
        coverage=covered_batches / total_batches if total_batches else None,
    )
