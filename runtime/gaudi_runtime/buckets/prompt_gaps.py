"""Prompt batches that no bucket holds: counted by closed sums over the staircases (docs/bucketing.md, Coverage)."""

from collections.abc import Iterator, Sequence

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.gaps import Gap, PhaseCoverage, phase_coverage
from gaudi_runtime.buckets.staircase import Level, Stairs, inner_corners, levels_of
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase

NO_PARTS = (
    "because the parts of a prompt longer than maxNumBatchedTokens have context after the first one: raise "
    "maxNumBatchedTokens to maxModelLen, or turn prefix caching on"
)


def prompt_coverage(buckets: Sequence[Bucket], limits: Limits) -> PhaseCoverage:
    """Admissible (batch size, query, context) and those that no bucket holds; `buckets` are in plan order."""
    levels = levels_of(buckets, limits.max_num_prefill_seqs)
    gaps = [_prompt_gap(first, limits) for first in inner_corners(levels) if _prompt_admits(first, limits)]
    nothing = [Level(1, limits.max_num_prefill_seqs, ())]
    shapes, missing = _prompt_missing(nothing, limits), _prompt_missing(levels, limits)
    return phase_coverage(BucketPhase.PROMPT, shapes, missing, gaps, _cure(gaps, limits))


def _cure(gaps: Sequence[Gap], limits: Limits) -> str | None:
    """Without prefix caching a plan has no context; only prompts that are computed in parts need it."""
    only_parts = not limits.prefix_caching and all(gap.first.num_blocks > 0 for gap in gaps)
    return NO_PARTS if only_parts else None


def _most_context(limits: Limits) -> int:
    """Blocks that can be cached before the last token: none where prompts are neither cached nor computed in parts."""
    in_parts = limits.max_num_batched_tokens < limits.max_model_len
    return (limits.max_model_len - 1) // limits.block_size if limits.prefix_caching or in_parts else 0


def _prompt_admits(shape: Bucket, limits: Limits) -> bool:
    return (
        shape.batch_size * shape.query_len <= limits.max_num_batched_tokens
        and shape.query_len + shape.num_blocks * limits.block_size <= limits.max_model_len
        and shape.num_blocks <= _most_context(limits)
    )


def _prompt_gap(first: Bucket, limits: Limits) -> Gap:
    """The gap of a corner: each dimension of its end is the most that the other two allow."""
    tokens, length = limits.max_num_batched_tokens, limits.max_model_len
    last = Bucket(
        min(limits.max_num_prefill_seqs, tokens // first.query_len),
        min(tokens // first.batch_size, length - first.num_blocks * limits.block_size),
        min(_most_context(limits), (length - first.query_len) // limits.block_size),
    )
    return Gap(first, last)


def _prompt_missing(levels: Sequence[Level], limits: Limits) -> int:
    """Shapes outside the staircases."""
    return sum(
        times * _missing_below(longest, level.stairs, limits)
        for level in levels
        for longest, times in _longest_queries(level, limits)
    )


def _longest_queries(level: Level, limits: Limits) -> Iterator[tuple[int, int]]:
    """(longest query, number of batch sizes that allow it) over the batch sizes of a level."""
    tokens, size = limits.max_num_batched_tokens, level.low
    while size <= min(level.high, tokens):
        longest = min(tokens // size, limits.max_model_len)
        end = min(tokens // longest, level.high)
        yield longest, end - size + 1
        size = end + 1


def _missing_below(longest: int, stairs: Stairs, limits: Limits) -> int:
    """(query, context) outside the staircase with a query of at most `longest` tokens."""
    total, start, most = 0, 0, _most_context(limits)
    for query, blocks in (*stairs, (0, most)):
        total += _queries_above(query, longest, start, min(blocks, most), limits)
        start = blocks + 1
    return total


def _queries_above(query: int, longest: int, start: int, end: int, limits: Limits) -> int:
    """Sum over contexts from `start` to `end` of the queries above `query` that they leave room for."""
    length, block = limits.max_model_len, limits.block_size
    if longest <= query:
        return 0
    end = min(end, (length - query - 1) // block)
    flat_end = min(end, (length - longest) // block)
    falling = max(start, flat_end + 1)
    flat, fall = max(0, flat_end - start + 1), max(0, end - falling + 1)
    return flat * (longest - query) + fall * (length - query) - block * (falling + end) * fall // 2
