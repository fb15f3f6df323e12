"""Bucket coverage: the admissible batches without a bucket, computed exactly and without a scan.

See docs/internals/planning.md, Coverage.

A bucket holds every batch that is not larger in any dimension. So the buckets from a batch size upwards hold a region
of (query, blocks) with a staircase as its edge. A gap begins at each inner corner of the staircase: no bucket holds an
admissible batch that is at least as large as the corner. Gaps overlap, but the totals count every shape once. Prompts
are counted by closed sums over the staircase, and decode batches are counted for each batch size.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import (
    most_context_kv_blocks_for_query,
    most_decode_blocks,
    most_prompt_tokens_in_kv_blocks,
)
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.units import plural

Stairs = tuple[tuple[int, int], ...]
"""The outermost (query, blocks) of a set of buckets, with falling queries and growing blocks."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of bucket coverage: batch sizes from `low` to `high` that the same buckets hold.

    `stairs` is the staircase of these buckets.
    """

    low: int
    high: int
    stairs: Stairs


def coverage_levels(buckets: Sequence[Bucket], max_sequences: int) -> Iterator[_Level]:
    """Yield the levels of bucket coverage, from `max_sequences` sequences down to 1.

    If no bucket of the plan holds `max_sequences` sequences, the first level has no buckets.
    """
    # Levels are generated one by one to save memory: all staircases together have up to (batch sizes x buckets) steps.
    rows = [(size, tuple(row)) for size, row in groupby(buckets, key=attrgetter("batch_size"))]
    low_sizes = [1, *(size + 1 for size, _ in rows)]
    stairs: Stairs = ()
    if low_sizes[-1] <= max_sequences:
        yield _Level(low_sizes[-1], max_sequences, stairs)
    for low, (size, row) in zip(low_sizes[-2::-1], reversed(rows), strict=True):
        stairs = _merge_stairs(row, stairs)
        if low <= max_sequences:
            yield _Level(low, min(size, max_sequences), stairs)


def count_coverage_steps(most_steps: int, levels: Iterable[_Level]) -> int:
    """Count the steps of all levels of a coverage. Counting stops above `most_steps`.

    The work of a search over the levels is proportional to the number of steps.
    """
    step_count = 0
    for level in levels:
        step_count += len(level.stairs)
        if step_count > most_steps:
            break
    return step_count


def _merge_stairs(row: Sequence[Bucket], larger: Stairs) -> Stairs:
    """Merge the staircase of a row of buckets with the staircase of all larger batch sizes."""
    stairs: list[tuple[int, int]] = []
    for query, blocks in sorted([*larger, *((bucket.query_len, bucket.num_blocks) for bucket in row)], reverse=True):
        if not stairs or blocks > stairs[-1][1]:
            stairs.append((query, blocks))
    return tuple(stairs)


def _inner_corners(stairs: Stairs) -> Iterator[Bucket]:
    """Yield the smallest single prompts outside a staircase.

    If one dimension of such a prompt is smaller by one, a bucket holds the prompt.
    """
    query_lens = (*(query_len + 1 for query_len, _ in stairs), 1)
    contexts = (0, *(blocks + 1 for _, blocks in stairs))
    for query_len, context in zip(query_lens, contexts, strict=True):
        yield Bucket(1, query_len, context)


# The most gaps of a phase in the list. The totals count all gaps.
MAX_GAPS = 20


@dataclass(frozen=True)
class CoverageGap:
    """A range of admissible shapes without a bucket, from `first` to `last` inclusive."""

    first: Bucket
    last: Bucket


@dataclass(frozen=True)
class PhaseCoverage:
    """The coverage of one phase. `shapes` counts the admissible batches, `missing` those without a bucket.

    `gaps` contains the first MAX_GAPS of `gap_count` gaps, smallest shape first.
    """

    phase: BucketPhase
    shapes: int
    missing: int
    gap_count: int
    gaps: tuple[CoverageGap, ...]

    def describe_gaps(self) -> str | None:
        """Describe the uncovered shapes with the smallest example; None if every shape has a bucket."""
        if not self.gaps:
            return None
        first, last = self.gaps[0].first, self.gaps[0].last
        gaps_text = plural(self.gap_count, "gap") + (", the first" if self.gap_count > 1 else "")
        return (
            f"{_format_share(self.missing, self.shapes)} of the {self.phase} shapes that the limits admit have no "
            f"bucket: {gaps_text} from {tuple(first)} to {tuple(last)}"
        )


class _GapStarts:
    """A counter of the shapes at which gaps begin. It stores the smallest MAX_GAPS of these shapes."""

    def __init__(self) -> None:
        self.gap_count = 0
        self.smallest: list[Bucket] = []
        self.min_blocks: int | None = None
        """The fewest blocks of all added shapes, not only of the kept ones; None before the first."""

    def add(self, shape: Bucket) -> None:
        """Count a gap that begins at this shape."""
        self.gap_count += 1
        self.min_blocks = shape.num_blocks if self.min_blocks is None else min(self.min_blocks, shape.num_blocks)
        insort(self.smallest, shape)
        del self.smallest[MAX_GAPS:]


def _format_share(part: int, whole: int) -> str:
    if part * 1000 < whole:
        return "under 0.1 %"
    return f"{part * 100 / whole:.1f} %"


def prompt_coverage(buckets: Sequence[Bucket], limits: Limits) -> PhaseCoverage:
    """Return the coverage of prompts: the admissible shapes (1, query, context), and the shapes without a bucket.

    `buckets` are in plan order. Each prompt is counted as a batch of one, because an engine puts several prompts into
    one batch only if a bucket holds them.
    """
    gap_starts = _GapStarts()
    # There is only one level, because a bucket of any batch size holds a single prompt.
    [level] = coverage_levels(buckets, 1)
    for corner in _inner_corners(level.stairs):
        if _is_admissible_prompt(corner, limits):
            gap_starts.add(corner)
    return PhaseCoverage(
        phase=BucketPhase.PROMPT,
        shapes=_count_missing_prompts((), limits),
        missing=_count_missing_prompts(level.stairs, limits),
        gap_count=gap_starts.gap_count,
        gaps=tuple(_prompt_gap(corner, limits) for corner in gap_starts.smallest),
    )


def _is_admissible_prompt(shape: Bucket, limits: Limits) -> bool:
    return shape.query_len <= limits.longest_query and shape.num_blocks <= most_context_kv_blocks_for_query(
        limits, shape.query_len
    )


def _prompt_gap(first: Bucket, limits: Limits) -> CoverageGap:
    """Return the gap that begins at a corner. It ends at the longest query and the most context that fit the corner."""
    max_query = most_prompt_tokens_in_kv_blocks(limits) - first.num_blocks * limits.block_size
    return CoverageGap(
        first,
        Bucket(1, min(limits.longest_query, max_query), most_context_kv_blocks_for_query(limits, first.query_len)),
    )


def _count_missing_prompts(stairs: Stairs, limits: Limits) -> int:
    """Count the admissible prompts outside a staircase, as a sum over the queries between two steps."""
    longest, ascending_stairs = limits.longest_query, stairs[::-1]
    tops = [*(min(query, longest) for query, _ in ascending_stairs), longest]
    covered_blocks = [*(blocks for _, blocks in ascending_stairs), -1]
    return sum(
        _count_queries_above(low, top, start + 1, most_context_kv_blocks_for_query(limits, 1), limits)
        for low, top, start in zip([0, *tops], tops, covered_blocks, strict=False)
    )


def _count_queries_above(query: int, longest: int, start: int, end: int, limits: Limits) -> int:
    """Sum the queries above `query` that fit together with each context from `start` to `end`."""
    max_tokens, block_size = most_prompt_tokens_in_kv_blocks(limits), limits.block_size
    if longest <= query:
        return 0
    end = min(end, (max_tokens - query - 1) // block_size)
    flat_end = min(end, (max_tokens - longest) // block_size)
    falling = max(start, flat_end + 1)
    flat, fall = max(0, flat_end - start + 1), max(0, end - falling + 1)
    return flat * (longest - query) + fall * (max_tokens - query) - block_size * (falling + end) * fall // 2


def decode_coverage(buckets: Sequence[Bucket], limits: Limits, kv_blocks: int) -> PhaseCoverage:
    """Return the coverage of decode: the admissible shapes (batch size, 1, blocks), and the shapes without a bucket.

    `buckets` are in plan order. Every sequence has at least one block of its own.
    """
    if limits.contiguous_paged_attention:
        return _contiguous_coverage(buckets, min(limits.max_num_seqs, kv_blocks), kv_blocks)
    shape_count = missing_count = 0
    gap_starts = _GapStarts()
    # Each staircase has one step, because each query has one token. So one pass handles all levels.
    for level in reversed(list(coverage_levels(buckets, limits.max_num_seqs))):
        covered_blocks = level.stairs[0][1] if level.stairs else 0
        for batch_size in range(level.low, min(level.high, kv_blocks) + 1):
            max_blocks = most_decode_blocks(batch_size, limits, kv_blocks)
            shape_count += max_blocks - batch_size + 1
            missing_count += max(0, max_blocks - max(covered_blocks, batch_size - 1))
            first_missing = max(covered_blocks + 1, batch_size)
            if max_blocks > covered_blocks and (gap_starts.min_blocks is None or first_missing < gap_starts.min_blocks):
                gap_starts.add(Bucket(batch_size, 1, first_missing))
    max_sequences = min(limits.max_num_seqs, kv_blocks)
    last = Bucket(max_sequences, 1, most_decode_blocks(max_sequences, limits, kv_blocks))
    gaps = tuple(CoverageGap(first, last) for first in gap_starts.smallest)
    return PhaseCoverage(BucketPhase.DECODE, shape_count, missing_count, gap_starts.gap_count, gaps)


def _contiguous_coverage(buckets: Sequence[Bucket], max_sequences: int, kv_blocks: int) -> PhaseCoverage:
    """Return decode batches of at most `max_sequences` sequences for which both lookups of vllm-gaudi find no bucket.

    The first lookup finds the batch size by the blocks of the sequences. The second lookup finds the blocks by the
    highest block in use. The second bucket may have a larger batch size, but only its blocks are used. So the buckets
    of the first batch size that holds the sequences must also hold the highest block.
    """
    rows = [
        (size, max(bucket.num_blocks for bucket in row)) for size, row in groupby(buckets, key=attrgetter("batch_size"))
    ]
    shape_count = missing_count = row_index = 0
    gaps: list[CoverageGap] = []
    previous_blocks: int | None = None
    for size in range(1, max_sequences + 1):
        # Sizes increase, so a row that is too small for this size is also too small for all later sizes.
        while row_index < len(rows) and min(rows[row_index]) < size:
            row_index += 1
        covered_blocks = rows[row_index][1] if row_index < len(rows) else 0
        shape_count += kv_blocks - size + 1
        missing_count += max(0, kv_blocks - max(covered_blocks, size - 1))
        if covered_blocks >= kv_blocks:
            previous_blocks = None
        elif previous_blocks == covered_blocks:
            gaps[-1] = CoverageGap(gaps[-1].first, Bucket(size, 1, kv_blocks))
        else:
            gaps.append(CoverageGap(Bucket(size, 1, max(covered_blocks + 1, size)), Bucket(size, 1, kv_blocks)))
            previous_blocks = covered_blocks
    return PhaseCoverage(BucketPhase.DECODE, shape_count, missing_count, len(gaps), tuple(gaps[:MAX_GAPS]))


@dataclass(frozen=True)
class PlanCoverage:
    """The coverage of a plan by phase. Every shape counts once, even if many requests have this shape."""

    prompt: PhaseCoverage
    decode: PhaseCoverage

    def describe_phases(self) -> tuple[str, ...]:
        """Return one clause for each phase with gaps, without a period."""
        return tuple(clause for phase in (self.prompt, self.decode) if (clause := phase.describe_gaps()))

    def describe_gaps(self) -> str | None:
        """Describe all gaps in one sentence without a period; None if every admissible batch has a bucket."""
        return "; ".join(self.describe_phases()) or None


def plan_coverage(plan: BucketPlan, limits: Limits, kv_blocks: int) -> PlanCoverage:
    """Return the coverage of a plan: the admissible batches without a bucket, on a device with `kv_blocks`.

    These batches are admissible (docs/internals/planning.md, Coverage): a prompt has at most maxNumBatchedTokens new
    tokens, and at most maxModelLen tokens including its cached context. A decode batch has at most maxNumSeqs
    sequences, and at most the blocks that these sequences can reference on this device. With stepsByTokens, a step with
    a prompt counts as one prompt of up to maxNumBatchedTokens tokens without context.
    """
    return PlanCoverage(prompt_coverage(plan.prompt, limits), decode_coverage(plan.decode, limits, kv_blocks))
