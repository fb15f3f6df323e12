"""The cost model of strategy `Optimal`: the compute of a padded batch, and the price of preparing a bucket.

The cost model is a function, so that callers can pass a better one (docs/internals/optimal.md, Cost). The cost must
not decrease if a dimension of a shape increases. The unit of the cost does not matter, because only ratios are used. A
price is one graph, bytes of graph memory, or seconds of warm-up.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.cards import GAUDI2_RATES
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.traffic.histogram import Traffic, histogram_weight

Cost = Callable[[BucketPhase, Bucket], float]

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
    and the shapes of two models.
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


Price = Callable[[BucketPhase, Bucket], float]


def price_in_graphs(_phase: BucketPhase, _bucket: Bucket) -> float:
    """Return 1 as the price of every bucket, for a budget of graphs."""
    return 1.0


def price_in_bytes(block_size: int) -> Price:
    """Return a price function for a budget of memory: the bytes of a graph, by the rates of the logged Gaudi 2.

    See docs/internals/warmup.md, Cards.
    """
    rates = {
        BucketPhase.PROMPT: GAUDI2_RATES.prompt_graph_bytes_per_token.value,
        BucketPhase.DECODE: GAUDI2_RATES.decode_graph_bytes_per_sequence.value,
    }
    return lambda phase, bucket: rates[phase] * bucket_weight(phase, bucket, block_size)


def price_in_seconds(phase: BucketPhase, _bucket: Bucket) -> float:
    """Return the price of a bucket for a budget of time: its warm-up seconds, by the rates of the logged Gaudi 2.

    See docs/internals/warmup.md.
    """
    if phase is BucketPhase.PROMPT:
        return GAUDI2_RATES.prompt_compile_seconds.value + GAUDI2_RATES.prompt_capture_seconds.value
    return GAUDI2_RATES.decode_compile_seconds.value + GAUDI2_RATES.decode_capture_seconds.value


@dataclass(frozen=True)
class PlanCostScore:
    """The score of a plan by the cost model, for traffic of one phase: its graphs, padding and coverage.

    `graphs` counts the buckets of the phase. `padding` is the padded cost divided by the real cost, for traffic that
    has a bucket. 1.0 means no padding; None means that no traffic has a bucket. `coverage` is the share of the traffic
    that has a bucket, or None if there is no traffic.
    """

    graphs: int
    padding: float | None
    coverage: float | None


def score_plan_cost(plan: BucketPlan, phase: BucketPhase, traffic: Traffic, cost: Cost) -> PlanCostScore:
    """Score a plan for the traffic of one phase. `find` of the plan returns the bucket that a shape is padded to."""
    padded_cost = real_cost = covered_batches = 0.0
    for shape, batches in traffic.shapes_of(phase).items():
        bucket = plan.find(phase, *shape)
        if bucket:
            covered_batches += batches
            padded_cost += batches * cost(phase, bucket)
            real_cost += batches * cost(phase, shape)
    total_batches = histogram_weight(traffic.shapes_of(phase))
    return PlanCostScore(
        graphs=len(plan.buckets_of(phase)),
        padding=padded_cost / real_cost if real_cost else None,
        coverage=covered_batches / total_batches if total_batches else None,
    )
