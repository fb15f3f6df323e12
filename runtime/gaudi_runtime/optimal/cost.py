"""What a batch of a shape costs to compute: the model is a function, so that a better one can be given.

A cost must not fall when a shape grows in any dimension; the unit is the model's own, only ratios are used.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase

Cost = Callable[[BucketPhase, Bucket], float]


def token_cost(block_size: int) -> Cost:
    """Tokens of a shape: those it computes and those of the KV cache that its attention reads.

    Prompt: batch * (query + context blocks * block_size); decode: batch + KV blocks * block_size.
    """

    def cost(phase: BucketPhase, shape: Bucket) -> float:
        blocks = shape.num_blocks if phase is BucketPhase.DECODE else shape.batch_size * shape.num_blocks
        return float(shape.batch_size * shape.query_len + blocks * block_size)

    return cost


@dataclass(frozen=True)
class Roofline:
    """Seconds of a forward pass: the longer of its arithmetic and its memory traffic.

    matmul_weights: weights that a token is multiplied with; attention_width: layers * query heads * head dimension;
    weight_bytes and kv_bytes_per_token: what is read from memory; operations_per_second and bytes_per_second: of the
    card. A multiplication with an addition counts as two operations.
    """

    block_size: int
    matmul_weights: float
    attention_width: float
    weight_bytes: float
    kv_bytes_per_token: float
    operations_per_second: float
    bytes_per_second: float

    def __call__(self, phase: BucketPhase, shape: Bucket) -> float:
        """Seconds for one batch of this shape."""
        tokens = shape.batch_size * shape.query_len
        cached = shape.num_blocks * self.block_size * (1 if phase is BucketPhase.DECODE else shape.batch_size)
        # Scores and their product with the values: two matmuls. Each new token sees the cached ones and, as graphs
        # of static shape mask instead of skipping, all new ones of its sequence.
        seen = cached * shape.query_len + tokens * shape.query_len
        operations = 2 * self.matmul_weights * tokens + 4 * self.attention_width * seen
        bytes_read = self.weight_bytes + self.kv_bytes_per_token * (cached + tokens)
        return max(operations / self.operations_per_second, bytes_read / self.bytes_per_second)
