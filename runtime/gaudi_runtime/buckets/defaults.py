"""Default ranges per strategy, and what users may override (docs/bucketing.md, Default ranges).

Every function takes the model's limits and the number of KV blocks on the device and returns a Range per dimension.
"""

import math
from dataclasses import dataclass, replace

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, RangeSettings

LONG_MODEL_LEN = 8192
"""From this model length on, long-context rules apply."""


@dataclass(frozen=True)
class Range:
    """The settings of one dimension after defaults and overrides; a strategy reads only what it knows."""

    min: int
    step: int
    max: int
    limit: int = 0
    pad_max: int = 0
    pad_percent: int = 0

    def override(self, settings: RangeSettings) -> "Range":
        """Replace every value that the user gave."""
        return replace(self, **settings.model_dump(exclude_none=True))


@dataclass(frozen=True)
class Ranges:
    """The five dimensions of a plan."""

    prompt_batch: Range
    prompt_query: Range
    prompt_context: Range
    decode_batch: Range
    decode_blocks: Range


def ceil_log2(value: int) -> int:
    """Exponent of the smallest power of two that is >= value (value >= 1)."""
    return (value - 1).bit_length()


def exponential_ranges(limits: Limits, kv_blocks: int) -> Ranges:
    """Five ranges that depend on the limits only: users cannot override them."""
    block, seqs, prefills = limits.block_size, limits.max_num_seqs, limits.max_num_prefill_seqs
    tokens = limits.max_num_batched_tokens
    context = _exponential_context(limits)
    ceiling = kv_blocks if limits.contiguous_paged_attention else 3 * kv_blocks
    blocks = min(math.ceil(limits.max_model_len / block) * seqs, ceiling)
    return Ranges(
        prompt_batch=Range(1, 2, prefills, ceil_log2(prefills) + 1),
        prompt_query=Range(block, block, tokens, ceil_log2(tokens)),
        prompt_context=Range(0, 1, context, 2 if context == 1 else ceil_log2(context) + 1),
        decode_batch=Range(1, 2, seqs, ceil_log2(seqs) + 1),
        decode_blocks=Range(1, seqs, blocks, ceil_log2(blocks) + 1),
    )


def _exponential_context(limits: Limits) -> int:
    """Largest context in blocks: what is left of the model length after the shortest (or, long, the fullest) query."""
    long = limits.max_model_len >= LONG_MODEL_LEN
    query = limits.max_num_batched_tokens if long else limits.block_size
    return max(1, (limits.max_model_len - query) // limits.block_size)


def linear_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Ranges:
    """Evenly spaced values; `policy` overrides every setting."""
    block, length, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    query = Range(block, block, limits.max_num_batched_tokens).override(policy.prompt.query)
    blocks = max(length * seqs // block, block)
    if limits.contiguous_paged_attention:
        blocks = kv_blocks
    return Ranges(
        prompt_batch=Range(1, 1, limits.max_num_prefill_seqs).override(policy.prompt.batch_size),
        prompt_query=query,
        prompt_context=Range(0, 1, max(0, (length - query.min) // block)).override(policy.prompt.context),
        decode_batch=Range(1, 32, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit(Range(1, block, blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def padding_aware_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Ranges:
    """Values whose absence would pad too much; `policy` overrides every setting."""
    block, length, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    tokens, prefills = limits.max_num_batched_tokens, limits.max_num_prefill_seqs
    query = _padded(block, block, tokens).override(policy.prompt.query)
    context = max(0, math.ceil((length - query.min) / block))
    blocks = max(math.ceil(length * seqs / block), block)
    if limits.contiguous_paged_attention:
        blocks = kv_blocks
    return Ranges(
        prompt_batch=_padded(1, 1, prefills).override(policy.prompt.batch_size),
        prompt_query=query,
        prompt_context=Range(0, 2, context, pad_max=math.ceil(tokens / block), pad_percent=25).override(
            policy.prompt.context
        ),
        decode_batch=_padded(1, 2, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit(_padded(block, block, blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def _padded(minimum: int, step: int, maximum: int) -> Range:
    return Range(minimum, step, maximum, pad_max=math.ceil(maximum / 4), pad_percent=25)


def _fit(blocks: Range, limits: Limits, kv_blocks: int) -> Range:
    """Bring a decode-block range down to the blocks that exist, keeping its minimum below its maximum."""
    if limits.contiguous_paged_attention and blocks.max > kv_blocks:
        blocks = replace(blocks, max=kv_blocks)
    if blocks.min > blocks.max:
        blocks = replace(blocks, min=max(1, blocks.max - blocks.step))
    return blocks
