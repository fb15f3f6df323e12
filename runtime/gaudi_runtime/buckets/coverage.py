"""Which batches that the limits admit have no bucket: exact, and without a scan.

See docs/internals/bucketing.md, Coverage.

A bucket holds everything that is no larger in any dimension, so all buckets of at least some batch size hold a region
of (query, blocks) whose edge is a staircase. Every inner corner of it is a gap: an admissible batch at least as large
as the corner has no bucket. Gaps overlap; the totals count every shape once: prompt batches by closed sums over the
staircases, decode batches size by size.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import ceil
from operator import attrgetter

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.units import plural

Stairs = tuple[tuple[int, int], ...]
"""The outermost (query, blocks) of a set of buckets: queries fall, blocks grow."""


@dataclass(frozen=True, slots=True)
class Level:
    """Batch sizes from `low` to `high`, and what the buckets of at least `high` sequences hold."""

    low: int
    high: int
    stairs: Stairs

    def holds(self, query: int, blocks: int) -> bool:
        """Whether some bucket is at least as large."""
        at = bisect_right(self.stairs, -query, key=lambda step: -step[0])
        return at > 0 and self.stairs[at - 1][1] >= blocks


def levels_of(buckets: Sequence[Bucket], most: int) -> Iterator[Level]:
    """From `most` sequences down to 1; the first level has no bucket where the plan ends below `most`."""
    # One by one, because all of them hold a staircase each: as many steps as batch sizes times buckets.
    rows = [(size, tuple(row)) for size, row in groupby(buckets, key=attrgetter("batch_size"))]
    lows = [1, *(size + 1 for size, _ in rows)]
    stairs: Stairs = ()
    if lows[-1] <= most:
        yield Level(lows[-1], most, stairs)
    for low, (size, row) in zip(lows[-2::-1], reversed(rows), strict=True):
        stairs = _outermost(row, stairs)
        if low <= most:
            yield Level(low, min(size, most), stairs)


def steps_up_to(most_steps: int, levels: Iterable[Level]) -> int:
    """Steps of all levels together, which is the work of whoever looks at them; counted no further than needed to
    know that they are more than `most_steps`.
    """
    steps = 0
    for level in levels:
        steps += len(level.stairs)
        if steps > most_steps:
            break
    return steps


def _outermost(row: Sequence[Bucket], larger: Stairs) -> Stairs:
    """The staircase of a row of buckets together with that of all larger batch sizes."""
    stairs: list[tuple[int, int]] = []
    for query, blocks in sorted([*larger, *((bucket.query_len, bucket.num_blocks) for bucket in row)], reverse=True):
        if not stairs or blocks > stairs[-1][1]:
            stairs.append((query, blocks))
    return tuple(stairs)


def inner_corners(levels: Iterable[Level]) -> Iterator[tuple[Level, Iterator[Bucket]]]:
    """Each level with the smallest shapes outside that begin there: such a shape is inside as soon as one of its
    dimensions is smaller by one.

    `levels` as levels_of() gives them.
    """
    above: Level | None = None
    for level in levels:
        if above is not None:
            yield above, _corners(above, level)
        above = level
    if above is not None:
        yield above, _corners(above, None)


def _corners(level: Level, below: Level | None) -> Iterator[Bucket]:
    """What is outside this level and, with one sequence less, inside the one below."""
    queries = (*(query + 1 for query, _ in level.stairs), 1)
    contexts = (0, *(blocks + 1 for _, blocks in level.stairs))
    for query, context in zip(queries, contexts, strict=True):
        if below is None or below.holds(query, context):
            yield Bucket(level.low, query, context)


# Most gaps of a phase that are listed; the totals count all of them.
MAX_GAPS = 20


@dataclass(frozen=True)
class Gap:
    """Every admissible shape from `first` to `last`, both included, has no bucket."""

    first: Bucket
    last: Bucket


@dataclass(frozen=True)
class PhaseCoverage:
    """`shapes` counts the distinct batches that the limits admit, `missing` those without a bucket.

    `gaps` are the first MAX_GAPS of `gap_count`, smallest shape first; `cure` is what would close them, where one thing
    does.
    """

    phase: BucketPhase
    shapes: int
    missing: int
    gap_count: int
    gaps: tuple[Gap, ...]
    cure: str | None = None

    def sentence(self) -> str | None:
        """What has no bucket, with the smallest example and its cure; None when everything has one."""
        if not self.gaps:
            return None
        first, last = self.gaps[0].first, self.gaps[0].last
        count = plural(self.gap_count, "gap") + (", the first" if self.gap_count > 1 else "")
        return (
            f"{_share(self.missing, self.shapes)} of the {self.phase} shapes that the limits admit have no bucket: "
            f"{count} from {tuple(first)} to {tuple(last)}{f', {self.cure}' if self.cure else ''}"
        )


class Firsts:
    """The smallest shapes of gaps: all are counted, the smallest MAX_GAPS kept."""

    def __init__(self) -> None:
        self.count = 0
        self.smallest: list[Bucket] = []
        self.least_blocks: int | None = None
        """Of all shapes, not only of those that are kept; None before the first."""

    def add(self, first: Bucket) -> None:
        """Count a gap that begins at this shape."""
        self.count += 1
        self.least_blocks = first.num_blocks if self.least_blocks is None else min(self.least_blocks, first.num_blocks)
        insort(self.smallest, first)
        del self.smallest[MAX_GAPS:]


def _share(part: int, whole: int) -> str:
    if part * 1000 < whole:
        return "under 0.1 %"
    return f"{part * 100 / whole:.1f} %"


NO_PARTS = (
    "because the parts of a prompt longer than maxNumBatchedTokens have context after the first one: raise "
    "maxNumBatchedTokens to maxModelLen, or turn prefix caching on"
)


NO_PIECES = (
    "because prompts are split over steps and no context is planned for their later pieces: say how much in "
    "bucketing.prompt.context, or set engine.chunkedPrefill to false, which splits none"
)


def _cure(limits: Limits) -> str | None:
    """What would close gaps that all have a context."""
    if limits.has_context:
        return None
    # A plan has no context then; only prompts that are computed in parts need it.
    return NO_PARTS if limits.pieces_planned is None else NO_PIECES


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
        cure=_cure(limits) if firsts.least_blocks != 0 else None,
    )


def _most_context(limits: Limits) -> int:
    """Blocks that can be cached before the last token: none where prompts are neither cached nor computed in parts."""
    if limits.steps_by_tokens:
        return 0
    in_parts = limits.pieces_planned is not None or limits.max_num_batched_tokens < limits.max_model_len
    return (_room(limits) - 1) // limits.block_size if limits.prefix_caching or in_parts else 0


def _room(limits: Limits) -> int:
    """Tokens that a query and its context of whole blocks share."""
    # A piece of a split prompt may begin within a block, which then counts for a single token.
    within = limits.pieces_planned is not None and not (limits.prefix_caching or limits.steps_by_tokens)
    return limits.longest_query + (limits.block_size - 1 if within else 0)


def _prompt_admits(shape: Bucket, limits: Limits) -> bool:
    return (
        shape.batch_size * shape.query_len <= limits.max_num_batched_tokens
        and shape.query_len <= limits.longest_query
        and shape.query_len + shape.num_blocks * limits.block_size <= _room(limits)
        and shape.num_blocks <= _most_context(limits)
    )


def _prompt_gap(first: Bucket, limits: Limits) -> Gap:
    """The gap of a corner: each dimension of its end is the most that the other two allow."""
    tokens, length = limits.max_num_batched_tokens, _room(limits)
    last = Bucket(
        min(limits.max_num_prefill_seqs, tokens // first.query_len),
        min(tokens // first.batch_size, limits.longest_query, length - first.num_blocks * limits.block_size),
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
        longest = min(tokens // size, limits.longest_query)
        end = min(tokens // longest, level.high)
        yield longest, end - size + 1
        size = end + 1


def _queries_above(query: int, longest: int, start: int, end: int, limits: Limits) -> int:
    """Sum over contexts from `start` to `end` of the queries above `query` that they leave room for."""
    length, block = _room(limits), limits.block_size
    if longest <= query:
        return 0
    end = min(end, (length - query - 1) // block)
    flat_end = min(end, (length - longest) // block)
    falling = max(start, flat_end + 1)
    flat, fall = max(0, flat_end - start + 1), max(0, end - falling + 1)
    return flat * (longest - query) + fall * (length - query) - block * (falling + end) * fall // 2


def decode_coverage(buckets: Sequence[Bucket], limits: Limits, kv_blocks: int) -> PhaseCoverage:
    """Admissible (batch size, 1, blocks) and those that no bucket holds; `buckets` are in plan order.

    Every sequence has at least one block of its own.
    """
    shapes = missing = 0
    firsts = Firsts()
    # All levels at once: a row of queries of one token has a staircase of one step.
    for level in reversed(list(levels_of(buckets, limits.max_num_seqs))):
        held = level.stairs[0][1] if level.stairs else 0
        for size in range(level.low, min(level.high, kv_blocks) + 1):
            most = most_decode_blocks(size, limits, kv_blocks)
            shapes += most - size + 1
            missing += max(0, most - max(held, size - 1))
            if most > held and (firsts.least_blocks is None or max(held + 1, size) < firsts.least_blocks):
                firsts.add(Bucket(size, 1, max(held + 1, size)))
    largest = min(limits.max_num_seqs, kv_blocks)
    last = Bucket(largest, 1, most_decode_blocks(largest, limits, kv_blocks))
    gaps = tuple(Gap(first, last) for first in firsts.smallest)
    return PhaseCoverage(BucketPhase.DECODE, shapes, missing, firsts.count, gaps)


def most_decode_blocks(size: int, limits: Limits, kv_blocks: int) -> int:
    """KV blocks that `size` sequences can make a decode batch read."""
    # With contiguous paged attention a prefix of the cache that ends with the highest block in use, wherever it lies.
    if limits.contiguous_paged_attention:
        return kv_blocks
    most = size * ceil(limits.max_model_len / limits.block_size)
    # Sequences that share blocks by prefix caching reference them once each, so a batch may read more than there are.
    return most if limits.prefix_caching else min(most, kv_blocks)


@dataclass(frozen=True)
class Uncovered:
    """What a plan leaves without a bucket, by phase. Shapes are counted alike, however often requests have them."""

    prompt: PhaseCoverage
    decode: PhaseCoverage

    def sentences(self) -> tuple[str, ...]:
        """One clause for each phase that has gaps, without a full stop."""
        return tuple(said for phase in (self.prompt, self.decode) if (said := phase.sentence()))

    def sentence(self) -> str | None:
        """All gaps in one sentence without a full stop; None when every admissible batch has a bucket."""
        return "; ".join(self.sentences()) or None


def uncovered(plan: BucketPlan, limits: Limits, kv_blocks: int) -> Uncovered:
    """The admissible batches that no bucket of `plan` holds, on a device with `kv_blocks` KV blocks.

    Admissible (docs/internals/bucketing.md, Coverage): a prompt batch has at most maxNumPrefillSeqs sequences and
    maxNumBatchedTokens tokens with padding, and query and cached context together are at most maxModelLen; a decode
    batch has at most maxNumSeqs sequences, and as many blocks as they can reference on this device. With stepsByTokens,
    a step that holds a prompt is one prompt of up to maxNumBatchedTokens tokens, without context.
    """
    return Uncovered(prompt_coverage(plan.prompt, limits), decode_coverage(plan.decode, limits, kv_blocks))
