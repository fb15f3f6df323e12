"""CoverFirst: the order in which a warm-up that may end early compiles its buckets (docs/internals/warmup.md).

The order of a phase starts with its covering set. Each later bucket is the bucket that saves the most padded compute by
typical_cost. The planned buckets represent the traffic, all with the same weight. Each is padded to the cheapest bucket
before it in the order. Compile times are ignored, because all buckets of a phase take equally long by the rates of the
reference logs.

    order = cover_first(plan, phase, limits, kv_blocks)
    order.buckets[: order.covering_count]   the covering set, which covers all that the plan covers
    cover_first_plan_without_cold(plan, limits, cold)   the buckets that requests are padded to if these stay cold
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
from gaudi_runtime.buckets.kv_blocks import (
    most_context_kv_blocks_for_query,
    most_decode_blocks,
    most_prompt_tokens_in_kv_blocks,
)
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
    """The warm-up order of all buckets of a phase. The first `covering_count` buckets are the covering set."""

    buckets: tuple[Bucket, ...]
    covering_count: int


def cover_first(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> CoverFirst:
    """Return the CoverFirst order of one phase, on a device with `kv_blocks` KV blocks.

    Equal plans have equal orders.
    """
    search = _OrderSearch(phase, limits.block_size, _needs(plan, phase, limits, kv_blocks))
    # The largest buckets come first, so that the memory peak occurs at the start of warm-up.
    search.take_largest_first(covering_set(plan, phase, limits, kv_blocks))
    covering_count = len(search.taken)
    remaining = [bucket for bucket in plan.buckets_of(phase) if bucket not in search.taken]
    if len(remaining) > MOST_SEARCHED:
        search.take_largest_first(remaining)
    else:
        search.take_by_saving({bucket: _largest_shape(phase, bucket, limits, kv_blocks) for bucket in remaining})
    return CoverFirst(tuple(search.taken), covering_count)


def _largest_shape(phase: BucketPhase, bucket: Bucket, limits: Limits, kv_blocks: int) -> Bucket | None:
    """Return the largest admissible shape in a bucket, or None if no shape with its blocks is admissible."""
    size, query_len, blocks = bucket
    if phase is BucketPhase.DECODE:
        size = size if limits.draft_tokens else min(size, limits.max_num_seqs)
        max_blocks = blocks if limits.draft_tokens else most_decode_blocks(size, limits, kv_blocks)
        return Bucket(size, query_len, min(blocks, max_blocks))
    if blocks > most_context_kv_blocks_for_query(limits, 1):
        return None
    return Bucket(
        size,
        min(query_len, limits.longest_query, most_prompt_tokens_in_kv_blocks(limits) - blocks * limits.block_size),
        blocks,
    )


def _needs(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> Needs:
    needs: dict[Bucket, list[Bucket]] = defaultdict(list)
    if phase is BucketPhase.PROMPT:
        return needs
    rows = {batch_size: list(row) for batch_size, row in groupby(plan.decode, key=attrgetter("batch_size"))}
    if limits.contiguous_paged_attention:
        # The plugin looks up the batch size first. A bucket of this batch size must then hold the highest block
        # (planning/coverage.py).
        tops = [max(row, key=attrgetter("num_blocks")) for row in rows.values()]
        for index, row in enumerate(rows.values()):
            needs.update({bucket: [tops[index]] for bucket in row if bucket is not tops[index]})
            needs[tops[index]] = _higher_buckets(tops[: index + 1], kv_blocks)
    for seed in plan.seeds:
        needs[seed] += _verification_buckets(plan, seed, limits)
    verifying_sizes = {seed.batch_size * _tokens_per_sequence(limits) for seed in plan.seeds}
    for smaller, larger in pairwise(bucket for bucket in plan.decode if bucket.batch_size in verifying_sizes):
        # A batch that verifies drafts is padded to `smaller` and never to `larger` while `smaller` is in the plan. So
        # `larger` is not warmed for such batches (engines/vllm/workers/speculative.py).
        if smaller.batch_size == larger.batch_size and _most_verified_blocks(larger, limits) <= smaller.num_blocks:
            needs[larger].append(smaller)
    return needs


def _verification_buckets(plan: BucketPlan, seed: Bucket, limits: Limits) -> list[Bucket]:
    """Return a list with the bucket in which the largest batch of a seed verifies its drafts; empty if none fits."""
    rows = seed.batch_size * _tokens_per_sequence(limits)
    blocks = _most_verified_blocks(Bucket(rows, 1, seed.num_blocks * _tokens_per_sequence(limits)), limits)
    bucket = plan.find(BucketPhase.DECODE, rows, 1, blocks)
    return [bucket] if bucket else []


def _most_verified_blocks(bucket: Bucket, limits: Limits) -> int:
    """Return the most blocks, counted per token, that full sequences with drafts can have in this bucket."""
    tokens = _tokens_per_sequence(limits)
    max_blocks = ceil((limits.max_model_len - tokens + 1) / limits.block_size) * (bucket.batch_size // tokens)
    return min(bucket.num_blocks // tokens, max_blocks) * tokens


def _tokens_per_sequence(limits: Limits) -> int:
    """Return the tokens of each sequence in a step that verifies drafts."""
    return 1 + (limits.draft_tokens or 0)


def _higher_buckets(tops: Sequence[Bucket], kv_blocks: int) -> list[Bucket]:
    """Return the buckets before the last one that have more blocks than all buckets after them.

    Only a bucket file can plan more blocks for fewer sequences.
    """
    higher: list[Bucket] = []
    max_blocks = min(tops[-1].num_blocks, kv_blocks)
    for top in reversed(tops[:-1]):
        if min(top.num_blocks, kv_blocks) > max_blocks:
            max_blocks = min(top.num_blocks, kv_blocks)
            higher.append(top)
    return higher


class _OrderSearch:
    """The search for the warm-up order: the taken buckets, and groups of other buckets that pad to a taken bucket."""

    def __init__(self, phase: BucketPhase, block_size: int, needs: Needs) -> None:
        self.taken: dict[Bucket, None] = {}
        self._can_split = phase is BucketPhase.PROMPT
        self._phase, self._cost, self._needs = phase, typical_cost(block_size), needs
        self._shapes: dict[Bucket, Bucket] = {}
        self._group_of: dict[Bucket, Bucket] = {}
        self._groups: dict[Bucket, list[Bucket]] = {}
        self._queue: list[tuple[float, Bucket, Bucket, int]] = []

    def cost(self, bucket: Bucket) -> float:
        """Return the estimated compute of a batch of this bucket."""
        return self._cost(self._phase, bucket)

    def take(self, bucket: Bucket) -> None:
        """Take a bucket after all buckets that it needs."""
        stack, visited = [bucket], {bucket}
        while stack:
            missing = [
                need for need in self._needs.get(stack[-1], ()) if need not in self.taken and need not in visited
            ]
            if missing:
                stack.append(missing[0])
                visited.add(missing[0])
            elif (ready_bucket := stack.pop()) not in self.taken:
                self.taken[ready_bucket] = None
                self._regroup(ready_bucket)

    def take_largest_first(self, buckets: Iterable[Bucket]) -> None:
        """Take all these buckets, largest first."""
        for bucket in sorted(buckets, key=lambda candidate: (-self.cost(candidate), candidate)):
            self.take(bucket)

    def take_by_saving(self, shapes: Mapping[Bucket, Bucket | None]) -> None:
        """Take all these buckets in the order of their savings. Each bucket represents batches of its shape.

        Buckets whose shape is not in the covering set's coverage come last.
        """
        for bucket, shape in shapes.items():
            paid = [
                (paid, taken) for taken in self.taken if shape and (paid := self._padded_cost(shape, taken, alone=True))
            ]
            if shape and paid:
                self._shapes[bucket], self._group_of[bucket] = shape, min(paid)[1]
                self._groups.setdefault(self._group_of[bucket], []).append(bucket)
        for group in self._groups:
            self._enqueue(group)
        while self._queue:
            _, bucket, group, group_size = heappop(self._queue)
            # A group can only become smaller, and each change adds a new entry to the queue. So an entry with another
            # size is outdated.
            if group_size == len(self._groups[group]):
                self.take(bucket)
        self.take_largest_first(shapes)

    def _regroup(self, bucket: Bucket) -> None:
        """Move the shapes of the group of `bucket`, which was just taken, to `bucket` if they are cheaper there."""
        group = self._group_of.pop(bucket, None)
        if group is None:
            return
        self._groups[group].remove(bucket)
        moved = [member for member in self._groups[group] if self._saved_cost(self._shapes[member], bucket, group)]
        self._group_of.update(dict.fromkeys(moved, bucket))
        moved_buckets = set(moved)
        self._groups[group] = [member for member in self._groups[group] if member not in moved_buckets]
        self._groups[bucket] = moved
        self._enqueue(group)
        self._enqueue(bucket)

    def _enqueue(self, group: Bucket) -> None:
        """Queue the bucket of a group that saves the most compute."""
        members = self._groups[group]
        if not members:
            return
        sample = members[:: -(-len(members) // MOST_COMPARED)]
        shapes, scale = [self._shapes[member] for member in sample], len(members) / len(sample)
        savings = (
            (scale * sum(self._saved_cost(shape, member, group) for shape in shapes), member) for member in sample
        )
        saved_cost, bucket = max(savings, key=lambda saving: (saving[0], saving[1]))
        heappush(self._queue, (-saved_cost, bucket, group, len(members)))

    def _saved_cost(self, shape: Bucket, bucket: Bucket, group: Bucket) -> float:
        """Return the compute that a batch of this shape saves by a move from `group` to `bucket`; 0 if it stays."""
        alone = self._can_split and shape.batch_size > group.batch_size
        new_cost = self._padded_cost(shape, bucket, alone=alone)
        return max(0.0, (self._padded_cost(shape, group, alone=alone) or 0.0) - new_cost) if new_cost else 0.0

    def _padded_cost(self, shape: Bucket, bucket: Bucket, *, alone: bool) -> float | None:
        """Return the cost of a batch of this shape in `bucket`; None if the shape does not fit.

        If `alone` is True, the batch is too large for the bucket, so its prompts run one by one.
        """
        if shape.query_len > bucket.query_len or shape.num_blocks > bucket.num_blocks:
            return None
        if shape.batch_size <= bucket.batch_size:
            return self.cost(bucket)
        return shape.batch_size * self.cost(bucket) if alone and self._can_split else None


def cover_first_plan_without_cold(plan: BucketPlan, limits: Limits, cold: Collection[Key]) -> BucketPlan:
    """Return the remaining plan if a warm-up in the order `CoverFirst` ends before the buckets `cold` are warm.

    A phase without any warm bucket keeps all its buckets.
    """
    prompt, decode = (
        tuple(bucket for bucket in plan.buckets_of(phase) if (phase, bucket) not in cold) or plan.buckets_of(phase)
        for phase in BucketPhase
    )
    if limits.contiguous_paged_attention:
        decode = _drop_low_rows(plan.decode, set(decode))
    warm = set(decode)
    seeds = tuple(bucket for bucket in plan.seeds if {bucket, *_verification_buckets(plan, bucket, limits)} <= warm)
    max_blocks = max((bucket.num_blocks for bucket in plan.decode), default=0)
    return replace(plan, prompt=prompt, decode=decode, seeds=seeds or plan.seeds, most_blocks=max_blocks)


def _drop_low_rows(decode: Sequence[Bucket], warm: Collection[Bucket]) -> tuple[Bucket, ...]:
    """Return the warm buckets. Skip a batch size whose largest bucket is cold if larger sizes hold more blocks."""
    # The plugin looks up the batch size first. In a batch size without a large bucket, the plugin would not find the
    # highest block.
    remaining: list[Bucket] = []
    max_blocks = -1
    for _, group in groupby(reversed(decode), key=attrgetter("batch_size")):
        largest, *_ = row = list(group)
        row = [bucket for bucket in row if bucket in warm]
        if row and (largest in warm or row[0].num_blocks >= max_blocks):
            max_blocks = row[0].num_blocks
            remaining += row
    return tuple(reversed(remaining))
