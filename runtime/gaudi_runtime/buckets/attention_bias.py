"""Prompt buckets whose attention bias the fused kernel of a card cannot index (docs/internals/bucketing.md).

vLLM's plugin gives the kernel a dense bias for prompts with a cached context: query x (context + query) elements for
each prompt of a batch. The kernel indexes the plane of one prompt with a signed offset of 32 bits, so a plane of 2^31
bytes or more makes it return NaN without an error. The offset starts again with each prompt, so the batch size does not
count. Both facts were measured by the plugin's developers on Gaudi 3 (vllm-gaudi, pull request 1749).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

from gaudi_runtime.buckets.bucket import Bucket, most_context_blocks
from gaudi_runtime.contract.bucketing import Limits

MOST_PLANE_BYTES = 2**31
"""A plane of so many bytes, or more, cannot be indexed."""


@dataclass(frozen=True)
class FusedAttention:
    """How the fused kernel computes prompts with a context.

    `element_bytes` are those of the bias. From `sliced_from` tokens of context and query on the plugin calls the kernel
    once per slice, for batches of one prompt; None if it never does.
    """

    element_bytes: int = 2
    sliced_from: int | None = None


def plane_bytes(bucket: Bucket, block_size: int, attention: FusedAttention) -> int:
    """Bytes of the bias that one call of the kernel indexes for a prompt; 0 without a bias, or with slices of it."""
    if bucket.num_blocks == 0:
        return 0
    tokens = bucket.num_blocks * block_size + bucket.query_len
    if attention.sliced_from is not None and bucket.batch_size == 1 and tokens >= attention.sliced_from:
        return 0
    return bucket.query_len * tokens * attention.element_bytes


def largest_unindexable(prompt: Iterable[Bucket], block_size: int, attention: FusedAttention | None) -> Bucket | None:
    """The prompt bucket with the largest plane that the kernel cannot index; None if it can index all of them."""
    if attention is None:
        return None
    sizes = ((plane_bytes(bucket, block_size, attention), bucket) for bucket in prompt)
    size, bucket = max(sizes, default=(0, None))
    return bucket if size >= MOST_PLANE_BYTES else None


def most_indexable_tokens(limits: Limits, attention: FusedAttention) -> int:
    """The largest maxNumBatchedTokens in whole blocks with which every context can be indexed; 0 if there is none."""
    context = most_context_blocks(limits) * limits.block_size
    # The largest query with query * (context + query) <= product.
    product = (MOST_PLANE_BYTES - 1) // attention.element_bytes
    query = (isqrt(context**2 + 4 * product) - context) // 2
    return query // limits.block_size * limits.block_size
