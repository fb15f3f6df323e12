"""Prompt batches that no bucket holds: counted by closed sums over the staircases (docs/bucketing.md, Coverage)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.gaps import Firsts, Gap, PhaseCoverage
from gaudi_runtime.buckets.staircase import Level, inner_corners, levels_of
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase

NO_PARTS = (
    "because the parts of a prompt longer than maxNumBatchedTokens have context after the first one: raise "
    "maxNumBatchedTokens to maxModelLen, or turn prefix caching on"
)


def prompt_coverage(buckets: Sequence[Bucket], limits: Limits) -> PhaseCoverage:
    """Admissible (batch size, query, context) and those that no bucket holds; `buckets` are in plan order."""
    firsts, missing = Firsts(), 0
    for level, corners in inner_corners(levels_of(buckets, limits.max_num_prefill_seqs)):
        missing += _missing(level, limits)
        for first in corners:
            if _prompt_admits(first, limits):
                firsts.add(first)
    return PhaseCoverage(
        phase=BucketPhase.PROMPT,
        shapes=_missing(Level(1, limits.max_num_prefill_seqs, ()), limits),
        missing=missing,
        gap_count=firsts.count,
        gaps=tuple(_prompt_gap(first, limits) for first in firsts.smallest),
        cure=_cure(firsts, limits),
    )


def _cure(firsts: Firsts, limits: Limits) -> str | None:
    """Without prefix caching a plan has no context; only prompts that are computed in parts need it."""
    only_parts = not limits.prefix_caching and firsts.least_blocks != 0
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


def _missing(level: Level, limits: Limits) -> int:
    """Shapes of a level outside its staircase: per stretch of queries between two steps, summed up to each longest."""
    most, ascending = _most_context(limits), level.stairs[::-1]
    tops = [query for query, _ in ascending]
    bottoms = [0, *tops]
    held = [*(blocks for _, blocks in ascending), -1]
    stretches = zip(bottoms, tops, held, strict=False)
    below = [0, *accumulate(_queries_above(low, top, start + 1, most, limits) for low, top, start in stretches)]
    total = 0
    for longest, times in _longest_queries(level, limits):
        at = bisect_right(tops, longest)
        total += times * (below[at] + _queries_above(bottoms[at], longest, held[at] + 1, most, limits))
    return total


def _longest_queries(level: Level, limits: Limits) -> Iterator[tuple[int, int]]:
    """(longest query, number of batch sizes that allow it) over the batch sizes of a level."""
    tokens, size = limits.max_num_batched_tokens, level.low
    while size <= min(level.high, tokens):
        longest = min(tokens // size, limits.max_model_len)
        end = min(tokens // longest, level.high)
        yield longest, end - size + 1
        size = end + 1


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
