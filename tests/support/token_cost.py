"""A simple cost model for tests and benchmarks of strategy Optimal, whose figures are exact for any model and card."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import Cost


def token_cost(block_size: int) -> Cost:
    """Return a cost model that counts the computed tokens and the tokens that attention reads from the KV cache.

    Prompt: batch * (query + context blocks * block_size). Decode: batch + KV blocks * block_size.
    """

    def cost(phase: BucketPhase, shape: Bucket) -> float:
        blocks = shape.num_blocks if phase is BucketPhase.DECODE else shape.batch_size * shape.num_blocks
        return float(shape.batch_size * shape.query_len + blocks * block_size)

    return cost
