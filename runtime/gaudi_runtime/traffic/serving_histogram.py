"""ServingHistogram: the shapes that a server observed, per bucket and for learning a plan.

See docs/how-to/plan-buckets.md, Learn from traffic.

Its size is limited: if there are too many buckets or real shapes, further shapes are counted with rounded sizes. The
class is not thread-safe, because counting and reading use the same event loop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.compiles import COMPILE_BOUNDS, CompileTimes, StepCompiles, StepPart
from gaudi_runtime.contract.report import MAX_NAMED_VISION, BucketPhase
from gaudi_runtime.contract.report_fields import MOST_COUNT
from gaudi_runtime.traffic.histogram import (
    MOST_LINES,
    Traffic,
    cap_histogram_sizes,
    merge_histogram_shapes,
    round_histogram_sizes_up,
)
from gaudi_runtime.traffic.padding import Padding

# The significant binary digits of real sizes. Sizes up to 128 are exact, and larger sizes are at most 1.6 % too large.
DIGITS = 7
# The most real shapes of a phase. If there are more shapes, sizes are rounded until half as many shapes are left.
MOST_SHAPES = 2 * MOST_LINES
# The most buckets that are counted separately. The sizes of further buckets are rounded up to powers of two.
MOST_BUCKETS = 8192

NOTHING = Bucket(0, 0, 0)
SERVING = "serving"
"""The stage of the compiles that requests waited for."""

Key = tuple[BucketPhase, Bucket]
Row = Sequence[Any]
"""Phase, real shape, padded shape, batches and compiles, as in JSON.

A shape is [batch size, query tokens, KV blocks]. A padded shape is [batch size, query tokens, KV blocks, warm], or None
if the plan determines it.
"""


class ServingPaddedShape(NamedTuple):
    """The padded shape under which the serving histogram counts a batch, and whether this shape is warm."""

    bucket: Bucket
    warm: bool


Pad = Callable[[BucketPhase, Bucket], ServingPaddedShape]


def make_padder(plan: BucketPlan, limits: Limits, is_warm: Callable[[BucketPhase, Bucket], bool]) -> Pad:
    """Return a function that pads served batches to a bucket of the plan, or to a fallback shape."""

    def pad(phase: BucketPhase, real_shape: Bucket) -> ServingPaddedShape:
        bucket = plan.find(phase, *real_shape) or plan.fallback(phase, limits, *real_shape)
        return ServingPaddedShape(bucket, is_warm(phase, bucket))

    return pad


@dataclass(slots=True)
class ServingTally:
    """The counts of one bucket in the histogram: warm batches (`hits`), cold batches (`misses`), and `compiles`.

    `compiles` counts compilations that delayed these batches. `tokens` (batch size * query) and `blocks` (of the whole
    batch) are sums of the real sizes. `needed` is the smallest bucket that holds all misses.
    """

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    tokens: int = 0
    blocks: int = 0
    needed: Bucket = NOTHING

    @property
    def batches(self) -> int:
        """The number of all batches."""
        return self.hits + self.misses


@dataclass(slots=True)
class ServingVisionTally:
    """The counts of vision tower runs in the histogram. `hits` are runs of known sizes, `misses` of new sizes.

    `cold` contains the inputs of the first misses, in the form that the model receives.
    """

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    cold: tuple[str, ...] = ()

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add rows of [inputs, warm, runs, compiles] from another process. Raises ValueError for any other form."""
        for row in rows:
            try:
                inputs, warm, runs, compiles = row
            except (TypeError, ValueError) as error:
                raise ValueError(f"{row} is not a row with inputs, warm, runs and compiles") from error
            self.compiles += _parse_count(compiles)
            if warm:
                self.hits += _parse_count(runs)
                continue
            self.misses += _parse_count(runs)
            if len(self.cold) < MAX_NAMED_VISION and inputs not in self.cold:
                self.cold = (*self.cold, str(inputs))


def serving_blocks_of(phase: BucketPhase, shape: Bucket) -> int:
    """Return the number of KV blocks that a served batch of this shape reads, for the serving histogram."""
    return shape[2] if phase is BucketPhase.DECODE else shape[0] * shape[2]


class ServingHistogram:
    """A histogram of served batches: hits, misses, compilations and padding per bucket, and the real shapes."""

    def __init__(self, pad: Pad, most_buckets: int = MOST_BUCKETS) -> None:
        self.tallies: dict[Key, ServingTally] = {}
        self.vision: ServingVisionTally | None = None
        self.compile_times: dict[str, CompileTimes] = {}
        self.step_compiles: dict[tuple[StepPart, str], StepCompiles] = {}
        self.padding: Mapping[BucketPhase, Padding] = {}
        """The padding of a learned plan by phase; empty for other plans."""
        self._pad, self._most_buckets = pad, most_buckets
        self._shapes: dict[BucketPhase, dict[Bucket, float]] = {phase: {} for phase in BucketPhase}
        self._digits = dict.fromkeys(BucketPhase, DIGITS)
        self._largest_sizes = dict.fromkeys(BucketPhase, NOTHING)

    def count_batch(self, phase: BucketPhase, real_shape: Bucket) -> Bucket:
        """Count a batch of `real_shape`, and return its padded shape."""
        padded_shape = self._pad(phase, real_shape)
        self.observe(phase, real_shape, padded_shape)
        return padded_shape.bucket

    def observe(
        self, phase: BucketPhase, real_shape: Bucket, padded_shape: ServingPaddedShape, batches: int = 1
    ) -> None:
        """Count `batches` batches of `real_shape` that ran as `padded_shape`, in constant time.

        `real_shape` is a Bucket. For a prompt batch, it has the longest query and the most cached blocks of the
        sequences.
        """
        tally = self._tally_of(phase, padded_shape.bucket)
        if padded_shape.warm:
            tally.hits += batches
        else:
            tally.misses += batches
            tally.needed = Bucket(*map(max, tally.needed, real_shape))
        tally.tokens += batches * real_shape[0] * real_shape[1]
        tally.blocks += batches * serving_blocks_of(phase, real_shape)
        if padding := self.padding.get(phase):
            padding.count_batches(phase, real_shape, padded_shape.bucket, batches)
        self._add_real_shape(phase, real_shape, batches)

    def count_compiles(self, phase: BucketPhase, bucket: Bucket, compiles: int = 1) -> None:
        """Count compilations that delayed a batch of this padded shape."""
        self._tally_of(phase, bucket).compiles += compiles

    def add_rows(
        self,
        rows: Iterable[Row],
        vision: Iterable[Row] | None = None,
        compile_times: Iterable[Row] = (),
        step_compiles: Iterable[Row] = (),
    ) -> None:
        """Add the batches that another process observed since its last answer.

        `vision` contains the runs of its vision tower. `compile_times` contains rows of [stage, recipes, seconds,
        counts], and `step_compiles` rows of [part, kind, count, seconds]. Raises ValueError for any other form.
        """
        for row in rows:
            phase, real_shape, reported_shape, batches, compiles = _parse_row(row)
            padded_shape = reported_shape or self._pad(phase, real_shape)
            self.observe(phase, real_shape, padded_shape, batches)
            if compiles:
                self.count_compiles(phase, padded_shape.bucket, compiles)
        if vision is not None:
            self.vision = self.vision or ServingVisionTally()
            self.vision.add_rows(vision)
        for times in map(_parse_compile_times, compile_times):
            previous = self.compile_times.get(times.stage)
            self.compile_times[times.stage] = _sum_compile_times(previous, times) if previous else times
        for step in map(_parse_step_compiles, step_compiles):
            key = step.part, step.kind
            total = self.step_compiles.get(key, StepCompiles(part=step.part, kind=step.kind, count=0, seconds=0))
            self.step_compiles[key] = total.model_copy(
                update={"count": min(total.count + step.count, MOST_COUNT), "seconds": total.seconds + step.seconds}
            )

    @property
    def hits(self) -> int:
        """The number of batches that ran with a warm shape."""
        return sum(tally.hits for tally in self.tallies.values())

    @property
    def recompiles(self) -> int:
        """The number of recompilations while serving, including those of the sampler and the vision tower."""
        steps = sum(self.step_recompiles(part) for part in (StepPart.SAMPLER, StepPart.OTHER))
        vision = self.vision.compiles if self.vision else 0
        return sum(tally.compiles for tally in self.tallies.values()) + steps + vision

    def step_recompiles(self, part: StepPart) -> int:
        """Return the number of recompilations of this part of the steps."""
        return sum(step.count for step in self.step_compiles.values() if step.part is part)

    @property
    def cold_batches(self) -> dict[Key, int]:
        """The number of cold batches for each padded shape."""
        return {key: tally.misses for key, tally in self.tallies.items() if tally.misses}

    def traffic(self) -> Traffic:
        """Return the real shapes with their numbers of batches as weights, so that a plan can be learned from them."""
        return Traffic(self._real_shapes(BucketPhase.PROMPT), self._real_shapes(BucketPhase.DECODE))

    def _real_shapes(self, phase: BucketPhase) -> dict[Bucket, float]:
        # No size is rounded to more than the largest observed size, because the limits may not admit a larger size.
        return cap_histogram_sizes(self._shapes[phase], self._largest_sizes[phase])

    def _tally_of(self, phase: BucketPhase, bucket: Bucket) -> ServingTally:
        tally = self.tallies.get((phase, bucket))
        if tally is None:
            if len(self.tallies) >= self._most_buckets:
                bucket = round_histogram_sizes_up(bucket, digits=1)
            tally = self.tallies.setdefault((phase, bucket), ServingTally())
        return tally

    def _add_real_shape(self, phase: BucketPhase, real_shape: Bucket, batches: int) -> None:
        shapes, largest = self._shapes[phase], self._largest_sizes[phase]
        # This code runs for every batch, but a larger size is rare. So the comparison comes first, and a new shape is
        # created only if needed.
        if real_shape[0] > largest[0] or real_shape[1] > largest[1] or real_shape[2] > largest[2]:
            self._largest_sizes[phase] = Bucket(*map(max, real_shape, largest))
        shape = round_histogram_sizes_up(real_shape, self._digits[phase])
        shapes[shape] = shapes.get(shape, 0.0) + batches
        if len(shapes) > MOST_SHAPES:
            self._shapes[phase], self._digits[phase] = merge_histogram_shapes(shapes, MOST_LINES, self._digits[phase])


def _parse_row(row: Row) -> tuple[BucketPhase, Bucket, ServingPaddedShape | None, int, int]:
    try:
        phase, real, fields, batches, compiles = row
        padded_shape = None if fields is None else ServingPaddedShape(_parse_shape(*fields[:3]), bool(fields[3]))
        return BucketPhase(phase), _parse_shape(*real), padded_shape, _parse_count(batches), _parse_count(compiles)
    except (TypeError, IndexError, ValueError) as error:
        raise ValueError(f"{list(row)} is not a row with phase, shape, padded shape, batches and compiles") from error


def _sum_compile_times(first: CompileTimes, second: CompileTimes) -> CompileTimes:
    counts = (min(sum(pair), MOST_COUNT) for pair in zip(first.counts, second.counts, strict=True))
    return CompileTimes(
        stage=first.stage,
        recipes=first.recipes + second.recipes,
        seconds=first.seconds + second.seconds,
        counts=tuple(counts),
    )


def _parse_compile_times(row: Row) -> CompileTimes:
    try:
        stage, recipes, seconds, counts = row
        if len(counts) != len(COMPILE_BOUNDS) + 1:
            raise ValueError(f"{len(counts)} counts")
        bounded_counts = tuple(min(_parse_count(count), MOST_COUNT) for count in counts)
        return CompileTimes(stage=stage, recipes=recipes, seconds=seconds, counts=bounded_counts)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{list(row)} is not a row with stage, recipes, seconds and counts") from error


def _parse_step_compiles(row: Row) -> StepCompiles:
    try:
        part, kind, count, seconds = row
        return StepCompiles(part=part, kind=kind, count=min(_parse_count(count), MOST_COUNT), seconds=seconds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{row} is not a row with part, kind, count and seconds") from error


def _parse_shape(batch_size: Any, query_len: Any, blocks: Any) -> Bucket:
    return Bucket(_parse_count(batch_size), _parse_count(query_len), _parse_count(blocks))


def _parse_count(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number} is not a count")
    return number
