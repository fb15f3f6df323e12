"""Prompt buckets whose attention bias the fused kernel of a card cannot index (docs/internals/planning.md).

For prompts with a cached context, vLLM's plugin passes a dense bias to the kernel. The bias has query x (context +
query) elements for each prompt of a batch. The kernel indexes the plane of one prompt with a signed offset of 32 bits.
If a plane has 2^31 bytes or more, the kernel returns NaN without an error. The offset starts at 0 for each prompt, so
the batch size has no effect. The plugin's developers measured both facts on Gaudi 3 (vllm-gaudi, pull request 1749).

Layers with a sliding window have a separate bias. With a context, this bias has the same size. Without a context, it
has query x query elements.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_kv_blocks
from gaudi_runtime.contract.bucketing import BucketingAttentionSlices, Limits

MOST_PLANE_BYTES = 2**31
"""A plane of this many bytes or more cannot be indexed."""


@dataclass(frozen=True)
class FusedAttentionBias:
    """The properties of a card's fused attention kernel that prompts depend on.

    `element_bytes` is the size of one element of the bias. If context and query of a single prompt have `sliced_from`
    tokens or more in total, the plugin calls the kernel once per slice. None means that prompts are never sliced.
    `windowed` is True for a model with sliding-window layers. These layers need no bias for prompts that consist of
    whole `window_slices`.
    """

    element_bytes: int = 2
    sliced_from: int | None = None
    windowed: bool = False
    window_slices: BucketingAttentionSlices | None = None

    def has_bias(self, bucket: Bucket) -> bool:
        """Return True if the plugin makes an attention bias for this prompt bucket."""
        slices, query_len = self.window_slices, bucket.query_len
        whole_slices = slices is not None and query_len >= slices.from_tokens and query_len % slices.tokens == 0
        return bucket.num_blocks > 0 or (self.windowed and not whole_slices)


def bias_plane_bytes(bucket: Bucket, block_size: int, attention: FusedAttentionBias) -> int:
    """Return the bytes of the attention bias that one kernel call indexes for a prompt; 0 if there is no bias."""
    tokens = bucket.num_blocks * block_size + bucket.query_len
    is_sliced = attention.sliced_from is not None and tokens >= attention.sliced_from
    if not attention.has_bias(bucket) or (is_sliced and bucket.batch_size == 1 and bucket.num_blocks > 0):
        return 0
    return bucket.query_len * tokens * attention.element_bytes


def largest_unindexable_bias(
    buckets: Iterable[Bucket], block_size: int, attention: FusedAttentionBias | None
) -> Bucket | None:
    """Return the prompt bucket with the largest bias that the attention kernel cannot index; None if all fit."""
    if attention is None:
        return None
    sized_buckets = ((bias_plane_bytes(bucket, block_size, attention), bucket) for bucket in buckets)
    size, bucket = max(sized_buckets, default=(0, None))
    return bucket if size >= MOST_PLANE_BYTES else None


def most_tokens_with_indexable_bias(limits: Limits, attention: FusedAttentionBias) -> int:
    """Return the largest maxNumBatchedTokens for which the kernel can index the attention bias of every context.

    The result is a multiple of the block size, or 0 if there is no such value.
    """
    context = most_context_kv_blocks(limits) * limits.block_size
    # The largest query for which query * (context + query) <= product.
    product = (MOST_PLANE_BYTES - 1) // attention.element_bytes
    query = (isqrt(context**2 + 4 * product) - context) // 2
    return query // limits.block_size * limits.block_size
