"""Rules that remove a bucket from a plan, each with a name that reports carry (docs/bucketing.md, Filters)."""

import math
from enum import StrEnum

from gaudi_runtime.contract.bucketing import Limits


class Rule(StrEnum):
    """Why a bucket is not in the plan, as the end of the sentence "... was dropped: ..."."""

    QUERY_TOO_LONG = "its query is longer than maxModelLen"
    CONTEXT_TOO_LONG = "its context has more blocks than a sequence of maxModelLen - 1 tokens needs"
    OVER_BUDGET = "its tokens (batch size * query) exceed maxNumBatchedTokens"
    OVER_BUDGET_WITH_CONTEXT = "its tokens, context included, exceed maxNumBatchedTokens"
    NOT_WHOLE_SLICES = "its query is not a multiple of slidingWindowSlices.tokens"
    FEWER_BLOCKS_THAN_SEQUENCES = "it has fewer KV blocks than sequences"


def most_context_blocks(limits: Limits) -> int:
    """Blocks of the longest context that a prompt token can have."""
    return math.ceil((limits.max_model_len - 1) / limits.block_size)


def prompt_rule(limits: Limits, batch_size: int, query_len: int, num_blocks: int) -> Rule | None:
    """The rule that forbids a prompt bucket, None when it may stay."""
    rule = query_rule(limits, batch_size, query_len)
    if rule is not None:
        return rule
    if num_blocks > most_context_blocks(limits):
        return Rule.CONTEXT_TOO_LONG
    return Rule.NOT_WHOLE_SLICES if num_blocks == 0 and _splits_a_slice(limits, query_len) else None


def query_rule(limits: Limits, batch_size: int, query_len: int) -> Rule | None:
    """The rule that forbids prompt buckets of this query whatever their context, None when there is none."""
    if query_len > limits.max_model_len:
        return Rule.QUERY_TOO_LONG
    if batch_size * query_len > limits.max_num_batched_tokens:
        return Rule.OVER_BUDGET
    return None


def _splits_a_slice(limits: Limits, query_len: int) -> bool:
    slices = limits.sliding_window_slices
    return slices is not None and query_len >= slices.from_tokens and query_len % slices.tokens != 0


def decode_rule(limits: Limits, batch_size: int, num_blocks: int) -> Rule | None:
    """The rule that forbids a decode bucket, None when it may stay. Contiguous attention forbids none."""
    if not limits.contiguous_paged_attention and batch_size > num_blocks:
        return Rule.FEWER_BLOCKS_THAN_SEQUENCES
    return None


def clamp_blocks(limits: Limits, batch_size: int, num_blocks: int) -> int:
    """Blocks of a decode bucket, at most what `batch_size` full sequences can reference (not with contiguous)."""
    if limits.contiguous_paged_attention:
        return num_blocks
    return min(num_blocks, batch_size * math.ceil(limits.max_model_len / limits.block_size))
