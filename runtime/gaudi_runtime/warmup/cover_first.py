"""CoverFirst: the order in which a warm-up that may end early compiles its buckets (docs/internals/warmup.md).

The order of a phase starts with its covering set. Each later bucket is the bucket that saves the most padded compute by
typical_cost. The planned buckets represent the traffic, all with the same weight. Each is padded to the cheapest bucket
before it in the order. Compile times are ignored, because all buckets of a phase take equally long by the rates of the
reference logs.

    order = cover_first(plan, phase, limits, kv_blocks)
    order.buckets[: order.covering]     the covering set, which covers all that the plan covers
    plan_without_cold(plan, limits, cold)   the buckets that requests are padded to if these stay cold
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import groupby, pairwise
from math import ceil
from operator import attrgetter

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import most_context_for_query, most_decode_blocks, most_prompt_tokens
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.warmup.covering import covering_set

Key = tuple[BucketPhase, Bucket]

MOST_SEARCHED = 5000
"""The most buckets whose order is searched. If there are more, the largest come first after the covering set."""
MOST_COMPARED = 24
"""The most buckets of a group that are compared for the next step. Larger groups are sampled evenly."""

Needs = Mapping[Bucket, Sequence[Bucket]]
"""The other buckets that must be warm for each bucket, because the plugin's second lookup needs them."""


@dataclass(frozen=True)
class CoverFirst:
    """The warm-up order of all buckets of a phase. The first `covering` buckets are the covering set."""

    buckets: tuple[Bucket, ...]
    covering: int


def cover_first(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> CoverFirst:
    """Return the CoverFirst order of one phase, on a device with `kv_blocks` KV blocks.

    Equal plans have equal orders.
    """
    search = _OrderSearch(phase, limits.block_size, _needs(plan, phase, limits, kv_blocks))
    # The largest buckets come first, so that the memory peak occurs at the start of warm-up.
    search.take_largest_first(covering_set(plan, phase, limits, kv_blocks))
    covering = len(search.taken)
    rest = [each for each in plan.buckets_of(phase) if each not in search.taken]
    if len(rest) > MOST_SEARCHED:
        search.take_largest_first(rest)
    else:
        search.take_by_saving({each: _largest_shape(phase, each, limits, kv_blocks) for each in rest})
    return CoverFirst(tuple(search.taken), covering)


def _largest_shape(phase: BucketPhase, bucket: Bucket, limits: Limits, kv_blocks: int) -> Bucket | None:
    """Return the largest admissible shape in a bucket, or None if no shape with its blocks is admissible."""
    size, query, blocks = bucket
    if phase is BucketPhase.DECODE:
        size = size if limits.draft_tokens else min(size, limits.max_num_seqs)
        most = blocks if limits.draft_tokens else most_decode_blocks(size, limits, kv_blocks)
        return Bucket(size, query, min(blocks, most))
    if blocks > most_context_for_query(limits, 1):
        return None
    return Bucket(
        size, min(query, limits.longest_query, most_prompt_tokens(limits) - blocks * limits.block_size), blocks
    )


def _needs(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> Needs:
    needs: dict[Bucket, list[Bucket]] = defaultdict(list)
    if phase is BucketPhase.PROMPT:
        return needs
    rows = {size: list(row) for size, row in groupby(plan.decode, key=attrgetter("batch_size"))}
    if limits.contiguous_paged_attention:
        # The plugin looks up the batch size first. A bucket of this batch size must then hold the highest block
        # (planning/coverage.py).
        tops = [max(row, key=attrgetter("num_blocks")) for row in rows.values()]
        for at, row in enumerate(rows.values()):
            needs.update({each: [tops[at]] for each in row if each is not tops[at]})
            needs[tops[at]] = _higher_buckets(tops[: at + 1], kv_blocks)
    for seed in plan.seeds:
        needs[seed] += _verification_buckets(plan, seed, limits)
    verifying = {seed.batch_size * _tokens_per_sequence(limits) for seed in plan.seeds}
    for smaller, larger in pairwise(each for each in plan.decode if each.batch_size in verifying):
        # A batch that verifies drafts is padded to `smaller` and never to `larger` while `smaller` is in the plan. So
        # `larger` is not warmed for such batches (engines/vllm/workers/speculative.py).
        if smaller.batch_size == larger.batch_size and _most_verified_blocks(larger, limits) <= smaller.num_blocks:
            needs[larger].append(smaller)
    return needs


def _verification_buckets(plan: BucketPlan, seed: Bucket, limits: Limits) -> list[Bucket]:
    """Return a list with the bucket in which the largest batch of a seed verifies its drafts; empty if none fits."""
    rows = seed.batch_size * _tokens_per_sequence(limits)
    blocks = _most_verified_blocks(Bucket(rows, 1, seed.num_blocks * _tokens_per_sequence(limits)), limits)
    found = plan.find(BucketPhase.DECODE, rows, 1, blocks)
    return [found] if found else []


def _most_verified_blocks(bucket: Bucket, limits: Limits) -> int:
    """Return the most blocks, counted per token, that full sequences with drafts can have in this bucket."""
    tokens = _tokens_per_sequence(limits)
    sequences = ceil((limits.max_model_len - tokens + 1) / limits.block_size) * (bucket.batch_size // tokens)
    return min(bucket.num_blocks // tokens, sequences) * tokens


def _tokens_per_sequence(limits: Limits) -> int:
    """Return the tokens of each sequence in a step that verifies drafts."""
    return 1 + (limits.draft_tokens or 0)


def _higher_buckets(tops: Sequence[Bucket], kv_blocks: int) -> list[Bucket]:
    """Return the buckets before the last one that have more blocks than all buckets after them.

    Only a bucket file can plan more blocks for fewer sequences.
    """
    found: list[Bucket] = []
    most = min(tops[-1].num_blocks, kv_blocks)
    for each in reversed(tops[:-1]):
        if min(each.num_blocks, kv_blocks) > most:
            most = min(each.num_blocks, kv_blocks)
            found.append(each)
    return found


class _OrderSearch:
    """The search for the warm-up order: the taken buckets, and groups of other buckets that pad to a taken bucket."""

    def __init__(self, phase: BucketPhase, block_size: int, needs: Needs) -> None:
        self.taken: dict[Bucket, None] = {}
        self._splits = phase is BucketPhase.PROMPT
        self._phase, self._cost, self._needs = phase, typical_cost(block_size), needs
        self._shapes: dict[Bucket, Bucket] = {}
        self._padded: dict[Bucket, Bucket] = {}
        self._groups: dict[Bucket, list[Bucket]] = {}
        self._queue: list[tuple[float, Bucket, Bucket, int]] = []

    def cost(self, bucket: Bucket) -> float:
        """Return the estimated compute of a batch of this bucket."""
        return self._cost(self._phase, bucket)

    def take(self, bucket: Bucket) -> None:
        """Take a bucket after all buckets that it needs."""
        waiting, begun = [bucket], {bucket}
        while waiting:
            missing = [
                each for each in self._needs.get(waiting[-1], ()) if each not in self.taken and each not in begun
            ]
            if missing:
                waiting.append(missing[0])
                begun.add(missing[0])
            elif (ready := waiting.pop()) not in self.taken:
                self.taken[ready] = None
                self._regroup(ready)

    def take_largest_first(self, buckets: Iterable[Bucket]) -> None:
        """Take all these buckets, largest first."""
        for bucket in sorted(buckets, key=lambda each: (-self.cost(each), each)):
            self.take(bucket)

    def take_by_saving(self, shapes: Mapping[Bucket, Bucket | None]) -> None:
        """Take all these buckets in the order of their savings. Each bucket represents batches of its shape.

        Buckets whose shape is not in the covering set's coverage come last.
        """
        for bucket, shape in shapes.items():
            paid = [
                (paid, each) for each in self.taken if shape and (paid := self._padded_cost(shape, each, alone=True))
            ]
            if shape and paid:
                self._shapes[bucket], self._padded[bucket] = shape, min(paid)[1]
                self._groups.setdefault(self._padded[bucket], []).append(bucket)
        for group in self._groups:
            self._enqueue(group)
        while self._queue:
            _, bucket, group, size = heappop(self._queue)
            # A group can only become smaller, and each change adds a new entry to the queue. So an entry with another
            # size is outdated.
            if size == len(self._groups[group]):
                self.take(bucket)
        self.take_largest_first(shapes)

    def _regroup(self, taken: Bucket) -> None:
        """Move the shapes of this bucket's group to the taken bucket if they are cheaper there."""
        group = self._padded.pop(taken, None)
        if group is None:
            return
        self._groups[group].remove(taken)
        moved = [each for each in self._groups[group] if self._saved_cost(self._shapes[each], taken, group)]
        self._padded.update(dict.fromkeys(moved, taken))
        gone = set(moved)
        self._groups[group] = [each for each in self._groups[group] if each not in gone]
        self._groups[taken] = moved
        self._enqueue(group)
        self._enqueue(taken)

    def _enqueue(self, group: Bucket) -> None:
        """Queue the bucket of a group that saves the most compute."""
        members = self._groups[group]
        if not members:
            return
        some = members[:: -(-len(members) // MOST_COMPARED)]
        shapes, share = [self._shapes[each] for each in some], len(members) / len(some)
        savings = ((share * sum(self._saved_cost(shape, each, group) for shape in shapes), each) for each in some)
        saved, bucket = max(savings, key=lambda each: (each[0], each[1]))
        heappush(self._queue, (-saved, bucket, group, len(members)))

    def _saved_cost(self, shape: Bucket, bucket: Bucket, group: Bucket) -> float:
        """Return the compute that a batch of this shape saves by a move from `group` to `bucket`; 0 if it stays."""
        alone = self._splits and shape.batch_size > group.batch_size
        paid = self._padded_cost(shape, bucket, alone=alone)
        return max(0.0, (self._padded_cost(shape, group, alone=alone) or 0.0) - paid) if paid else 0.0

    def _padded_cost(self, shape: Bucket, bucket: Bucket, *, alone: bool) -> float | None:
        """Return the cost of a batch of this shape in `bucket`; None if the shape does not fit.

        If `alone` is True, the batch is too large for the bucket, so its prompts run one by one.
        """
        if shape.query_len > bucket.query_len or shape.num_blocks > bucket.num_blocks:
            return None
        if shape.batch_size <= bucket.batch_size:
            return self.cost(bucket)
        return shape.batch_size * self.cost(bucket) if alone and self._splits else None


def plan_without_cold(plan: BucketPlan, limits: Limits, cold: Collection[Key]) -> BucketPlan:
    """Return the remaining plan if a warm-up in the order `CoverFirst` ends before the buckets `cold` are warm.

    A phase without any warm bucket keeps all its buckets.
    """
    prompt, decode = (
        tuple(each for each in plan.buckets_of(phase) if (phase, each) not in cold) or plan.buckets_of(phase)
        for phase in BucketPhase
    )
    if limits.contiguous_paged_attention:
        decode = _drop_low_rows(plan.decode, set(decode))
    warm = set(decode)
    seeds = tuple(each for each in plan.seeds if {each, *_verification_buckets(plan, each, limits)} <= warm)
    most = max((each.num_blocks for each in plan.decode), default=0)
    return replace(plan, prompt=prompt, decode=decode, seeds=seeds or plan.seeds, most_blocks=most)


def _drop_low_rows(decode: Sequence[Bucket], warm: Collection[Bucket]) -> tuple[Bucket, ...]:
    """Return the warm buckets. Skip a batch size whose largest bucket is cold if larger sizes hold more blocks."""
    # The plugin looks up the batch size first. In a batch size without a large bucket, the plugin would not find the
    # highest block.
    kept: list[Bucket] = []
    most = -1
    for _, group in groupby(reversed(decode), key=attrgetter("batch_size")):
        largest, *_ = row = list(group)
        row = [each for each in row if each in warm]
        if row and (largest in warm or row[0].num_blocks >= most):
            most = row[0].num_blocks
            kept += row
    return tuple(reversed(kept))
