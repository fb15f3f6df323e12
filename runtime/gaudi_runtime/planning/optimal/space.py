"""What a choice is made of: admissible shapes, the values that may become rungs, and smoothed traffic.

Every admissible shape gets a bucket (docs/internals/bucketing.md, Coverage). The search must stay below a second, so a
dimension offers a bounded number of values: where one dimension has a choice, all multiples of its step, coarser from
512 of them on; where several have, those that the traffic of the dimension taken alone would choose.

Traffic is smoothed, for that of tomorrow is not that of today: what was seen once stands for what is like it
(docs/internals/optimal.md, Smoothing, which has figures of what it gains and costs). A share of the learned weight is
spread over shapes of about the same size, so that a plan does not lean on a peak that may be gone tomorrow, and has
rungs where nothing was seen yet.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, erf, log, sqrt
from typing import NamedTuple, Protocol

from gaudi_runtime.buckets.bucket import Bucket, most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.ladder import Ladder, Rung
from gaudi_runtime.traffic.histogram import Weights


class Row(NamedTuple):
    """Requests from `low` to `top`, all padded to `top`."""

    low: int
    top: int


class Space(Protocol):
    """The admissible shapes of a phase; the three dimensions are those of a Bucket."""

    phase: BucketPhase

    def steps(self) -> tuple[int, int, int]:
        """Of which number the values of each dimension should be multiples."""

    def bounds(self) -> tuple[Row, Row, Row]:
        """Smallest and largest value of each dimension."""

    def forced(self) -> Sequence[int]:
        """Batch sizes that must be values of their own."""

    def admits(self, shape: Bucket) -> bool:
        """Whether a batch of this shape can occur."""

    def span(self, outer: tuple[Row, ...]) -> Row | None:
        """Smallest possible and necessary largest value of the next dimension within `outer` rows.

        None when one row cannot hold the requests: what the smallest of them needs, the top must not have.
        """

    def corners(self) -> tuple[Bucket, ...]:
        """The fewest buckets that hold every admissible shape."""


@dataclass(frozen=True)
class PromptSpace:
    """Prompts: batch * query <= maxNumBatchedTokens; context only where prompts can have one."""

    limits: Limits
    with_context: bool
    phase = BucketPhase.PROMPT

    def steps(self) -> tuple[int, int, int]:
        return 1, self.limits.block_size, 1

    def bounds(self) -> tuple[Row, Row, Row]:
        return Row(1, self._most_sequences()), Row(1, self._longest(1)), Row(0, self._most_context(1))

    def forced(self) -> Sequence[int]:
        sizes = range(1, self._most_sequences())
        return [size for size in sizes if self._longest(size) != self._longest(size + 1)]

    def admits(self, shape: Bucket) -> bool:
        return (
            1 <= shape.batch_size <= self._most_sequences()
            and 1 <= shape.query_len <= self._longest(shape.batch_size)
            and 0 <= shape.num_blocks <= self._most_context(shape.query_len)
        )

    def span(self, outer: tuple[Row, ...]) -> Row | None:
        if not outer:
            return Row(1, self._most_sequences())
        if len(outer) == 1:
            longest = self._longest(outer[0].top)
            return Row(1, longest) if longest == self._longest(outer[0].low) else None
        return Row(0, self._most_context(outer[1].low))

    def corners(self) -> tuple[Bucket, ...]:
        sizes = (*self.forced(), self._most_sequences())
        return tuple(Bucket(size, self._longest(size), self._most_context(1)) for size in sizes)

    def _most_sequences(self) -> int:
        return min(self.limits.max_num_prefill_seqs, self.limits.max_num_batched_tokens)

    def _longest(self, batch_size: int) -> int:
        """Tokens of the longest query in a batch of this size."""
        return min(self.limits.longest_query, self.limits.max_num_batched_tokens // batch_size)

    def _most_context(self, query: int) -> int:
        """Blocks of the longest context of a query."""
        if not self.with_context:
            return 0
        # A block that is cached in part counts.
        return ceil((self.limits.max_model_len - query) / self.limits.block_size)


@dataclass(frozen=True)
class DecodeSpace:
    """Decode: as many KV blocks as so many sequences can reference on a device with `kv_blocks` of them."""

    limits: Limits
    kv_blocks: int
    phase = BucketPhase.DECODE

    def steps(self) -> tuple[int, int, int]:
        return 1, 1, 1

    def bounds(self) -> tuple[Row, Row, Row]:
        return Row(1, self._most_sequences()), Row(1, 1), Row(1, self._most_blocks(self._most_sequences()))

    def forced(self) -> Sequence[int]:
        return ()

    def admits(self, shape: Bucket) -> bool:
        return (
            1 <= shape.batch_size <= self._most_sequences()
            and shape.query_len == 1
            and shape.batch_size <= shape.num_blocks <= self._most_blocks(shape.batch_size)
        )

    def span(self, outer: tuple[Row, ...]) -> Row | None:
        if not outer:
            return Row(1, self._most_sequences())
        if len(outer) == 1:
            return Row(1, 1)
        top = outer[0].top
        # Without contiguous attention a bucket with fewer blocks than sequences is no bucket.
        return Row(1 if self.limits.contiguous_paged_attention else top, self._most_blocks(top))

    def corners(self) -> tuple[Bucket, ...]:
        most = self._most_sequences()
        return (Bucket(most, 1, self._most_blocks(most)),)

    def _most_sequences(self) -> int:
        # Every sequence has a block of its own.
        return min(self.limits.max_num_seqs, self.kv_blocks)

    def _most_blocks(self, batch_size: int) -> int:
        return most_decode_blocks(batch_size, self.limits, self.kv_blocks)


MOST_MULTIPLES = 512
Bounds = Mapping[int, tuple[int, ...]]
MOST_VALUES: Bounds = {0: (), 1: (512,), 2: (16, 96), 3: (8, 12, 20)}
"""Most values of the dimensions that have a choice, outermost first, by the number of such dimensions."""

Axes = tuple[list[int], list[int], list[int]]


def choose_axes(space: Space, traffic: Weights, most: Bounds = MOST_VALUES) -> Axes:
    """At most `most` sorted values per dimension; the largest one of each ends its list."""
    bounds = zip(space.bounds(), space.steps(), strict=True)
    full = [_multiples(low, step, top) for (low, top), step in bounds]
    live = [at for at, values in enumerate(full) if len(values) > 1]
    for at, count in zip(live, most[len(live)], strict=True):
        full[at] = _thin(space.phase, full[at], _marginal(traffic, at, full[at]), count)
    full[0] = sorted({*full[0], *space.forced()})
    return full[0], full[1], full[2]


def to_axes(traffic: Weights, axes: Axes) -> dict[Bucket, float]:
    """The same traffic with every dimension rounded up to the next value of its axis."""
    rounded: dict[Bucket, float] = {}
    for shape, weight in traffic.items():
        cell = Bucket(*(_next(axis, value) for axis, value in zip(axes, shape, strict=True)))
        rounded[cell] = rounded.get(cell, 0.0) + weight
    return rounded


def _next(axis: Sequence[int], value: int) -> int:
    return axis[min(bisect_left(axis, value), len(axis) - 1)]


def _multiples(least: int, step: int, most: int) -> list[int]:
    """`most` and every multiple of `step` below it; of more than 512 only those with few significant bits."""
    multiples: Iterable[int] = range(step, most, step)
    if len(range(step, most, step)) > MOST_MULTIPLES:
        multiples = (step * each for each in _few_bits(most // step) if step * each < most)
    zero = [0] if least == 0 and most > 0 else []
    return [*zero, *multiples, most]


def _few_bits(most: int) -> Iterable[int]:
    """Numbers up to `most` that are a multiple of a power of two at most 1/64 of them."""
    value = 1
    while value <= most:
        yield value
        value += 1 << max(0, value.bit_length() - 7)


def _marginal(traffic: Weights, dimension: int, axis: Sequence[int]) -> list[float]:
    weights = [0.0] * len(axis)
    for shape, weight in traffic.items():
        weights[min(bisect_left(axis, shape[dimension]), len(axis) - 1)] += weight
    return weights


def _thin(phase: BucketPhase, values: list[int], weights: Sequence[float], count: int) -> list[int]:
    """The `count` values that this dimension alone would be padded least with."""
    if len(values) <= count:
        return values
    rungs = [Rung(Bucket(1, 1, value), weight, value, 1) for value, weight in zip(values, weights, strict=True)]
    return [values[at] for at in Ladder(phase, rungs).exactly(count)]


SPREAD_SHARE = 0.2
"""Share of the weight that is spread: most stays, because lengths repeat (a system prompt, a full context window)."""

# Standard deviation of the natural logarithm of a size: two thirds of it lie between 0.74 and 1.35 times the size.
SPREAD_WIDTH = 0.3

NEGLIGIBLE = 1e-4


def smooth(traffic: Mapping[Bucket, float], axes: Axes) -> dict[Bucket, float]:
    """Traffic on the values of `axes` with a share of its weight spread; the total stays."""
    spread = _spread({cell: weight * SPREAD_SHARE for cell, weight in traffic.items()}, axes)
    for cell, weight in traffic.items():
        spread[cell] = spread.get(cell, 0.0) + weight * (1 - SPREAD_SHARE)
    return spread


def similar(space: Space, traffic: Weights) -> dict[Bucket, float]:
    """Return admissible traffic of about the same sizes as `traffic`, all of whose weight is spread."""
    axes = choose_axes(space, traffic)
    return {cell: weight for cell, weight in _spread(to_axes(traffic, axes), axes).items() if space.admits(cell)}


def _spread(traffic: dict[Bucket, float], axes: Axes) -> dict[Bucket, float]:
    for dimension, axis in enumerate(axes):
        traffic = _spread_along(traffic, dimension, tuple(axis))
    return traffic


def _spread_along(traffic: Mapping[Bucket, float], dimension: int, axis: tuple[int, ...]) -> dict[Bucket, float]:
    spread: dict[Bucket, float] = {}
    # Kept for one traffic, not for ever: every axis has as many as it has values, each with as many shares.
    kernels = {centre: _kernel(axis, centre) for centre in {cell[dimension] for cell in traffic}}
    for cell, weight in traffic.items():
        for value, share in kernels[cell[dimension]]:
            to = Bucket._make((*cell[:dimension], value, *cell[dimension + 1 :]))
            spread[to] = spread.get(to, 0.0) + weight * share
    return spread


def _kernel(axis: tuple[int, ...], centre: int) -> Sequence[tuple[int, float]]:
    """Shares of a log-normal distribution around the middle of the cell that ends at `centre`."""
    # No context at all is a kind of its own: 0 neither gives nor takes.
    if centre == 0:
        return ((0, 1.0),)
    positive = [value for value in axis if value > 0]
    at = positive.index(centre)
    middle = log(((positive[at - 1] if at else 0) + centre) / 2)
    below = [0.5 * (1 + erf((log(value) - middle) / SPREAD_WIDTH / sqrt(2))) for value in positive[:-1]]
    bounds = [0.0, *below, 1.0]
    shares = [high - low for low, high in pairwise(bounds)]
    kept = [(value, share) for value, share in zip(positive, shares, strict=True) if share > NEGLIGIBLE]
    total = sum(share for _, share in kept)
    return tuple((value, share / total) for value, share in kept)
