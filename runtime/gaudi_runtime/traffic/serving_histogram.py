"""ServingHistogram: the shapes that a server observed, per bucket and for learning.

See docs/how-to/buckets.md, While serving.

It is small however long a server runs: buckets and real shapes are bounded in number, and what is beyond is counted
under rounded shapes. Not for several threads: whoever counts and whoever reads share one event loop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import (
    COMPILE_BOUNDS,
    MAX_NAMED_VISION,
    MOST_COUNT,
    BucketPhase,
    CompileTimes,
)
from gaudi_runtime.traffic.histogram import MOST_LINES, Traffic, fewer, to_digits, within
from gaudi_runtime.traffic.padding import Padding

# Significant binary digits of real sizes: exact up to 128, then at most 1.6 % too large.
DIGITS = 7
# Real shapes of a phase; above that they are rounded until half as many are left.
MOST_SHAPES = 2 * MOST_LINES
# Buckets that are counted each by itself; others count under their sizes rounded up to powers of two.
MOST_BUCKETS = 8192

NOTHING = Bucket(0, 0, 0)
SERVING = "serving"
"""The stage of compile times that requests waited for."""

Key = tuple[BucketPhase, Bucket]
Row = Sequence[Any]
"""Phase, real shape, what that ran as, batches, compiles, as JSON carries them.

A shape is [batch size, query tokens, KV blocks]. What it ran as is [batch size, query tokens, KV blocks, warm], or None
where the plan says it.
"""


class Padded(NamedTuple):
    """What a batch is padded to, and whether that shape runs as fast as it can: from its graph, where there is one."""

    bucket: Bucket
    warm: bool


Pad = Callable[[BucketPhase, Bucket], Padded]


def pad_by(plan: BucketPlan, limits: Limits, is_warm: Callable[[BucketPhase, Bucket], bool]) -> Pad:
    """Padding as the plan says: to the bucket that holds a batch, otherwise to its fallback shape."""

    def pad(phase: BucketPhase, real: Bucket) -> Padded:
        bucket = plan.find(phase, *real) or plan.fallback(phase, limits, *real)
        return Padded(bucket, is_warm(phase, bucket))

    return pad


@dataclass(slots=True)
class Tally:
    """Batches of one bucket: `hits` met it warm, `misses` did not; `compiles` happened on the way.

    Real sizes as sums over these batches: `tokens` (batch size * query) and `blocks` (of the whole batch). `needed` is
    the smallest bucket that holds all misses.
    """

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    tokens: int = 0
    blocks: int = 0
    needed: Bucket = NOTHING

    @property
    def batches(self) -> int:
        """All batches."""
        return self.hits + self.misses


@dataclass(slots=True)
class VisionTally:
    """Runs of the vision tower: `hits` of sizes that it had run before, `misses` of others.

    `cold` are the inputs of the first misses, as the model has them.
    """

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    cold: tuple[str, ...] = ()

    def absorb(self, rows: Iterable[Row]) -> None:
        """Rows of [inputs, whether that was warm, runs, compiles]. Raises ValueError for what is no row."""
        for row in rows:
            try:
                inputs, warm, runs, compiles = row
            except (TypeError, ValueError) as error:
                raise ValueError(f"{row} is no row of inputs, whether they were warm, runs and compiles") from error
            self.compiles += _count(compiles)
            if warm:
                self.hits += _count(runs)
                continue
            self.misses += _count(runs)
            if len(self.cold) < MAX_NAMED_VISION and inputs not in self.cold:
                self.cold = (*self.cold, str(inputs))


def blocks_of(phase: BucketPhase, shape: Bucket) -> int:
    """KV blocks that a whole batch of this shape reads."""
    return shape[2] if phase is BucketPhase.DECODE else shape[0] * shape[2]


class ServingHistogram:
    """Hits, misses, compiles and padding per bucket, and the real shapes with the number of their batches."""

    def __init__(self, pad: Pad, most_buckets: int = MOST_BUCKETS) -> None:
        self.tallies: dict[Key, Tally] = {}
        self.vision: VisionTally | None = None
        self.compile_times: dict[str, CompileTimes] = {}
        self.padding: Mapping[BucketPhase, Padding] = {}
        """Padding of a learned plan by phase; empty for any other plan."""
        self._pad, self._most_buckets = pad, most_buckets
        self._shapes: dict[BucketPhase, dict[Bucket, float]] = {phase: {} for phase in BucketPhase}
        self._digits = dict.fromkeys(BucketPhase, DIGITS)
        self._largest = dict.fromkeys(BucketPhase, NOTHING)

    def meet(self, phase: BucketPhase, real: Bucket) -> Bucket:
        """Count a batch of the shape `real`, and return what it is padded to."""
        padded = self._pad(phase, real)
        self.observe(phase, real, padded)
        return padded.bucket

    def observe(self, phase: BucketPhase, real: Bucket, padded: Padded, batches: int = 1) -> None:
        """Count `batches` of the shape `real` that ran as `padded`; constant time, a few microseconds.

        `real` has the numbers of a Bucket: of a prompt the longest query and the most cached blocks of its sequences.
        """
        tally = self._tally(phase, padded.bucket)
        if padded.warm:
            tally.hits += batches
        else:
            tally.misses += batches
            tally.needed = Bucket(*map(max, tally.needed, real))
        tally.tokens += batches * real[0] * real[1]
        tally.blocks += batches * blocks_of(phase, real)
        if padding := self.padding.get(phase):
            padding.count(phase, real, padded.bucket, batches)
        self._remember(phase, real, batches)

    def compiled(self, phase: BucketPhase, bucket: Bucket, compiles: int = 1) -> None:
        """Count compiles that a batch of this padded shape waited for."""
        self._tally(phase, bucket).compiles += compiles

    def absorb(
        self, rows: Iterable[Row], vision: Iterable[Row] | None = None, compile_times: Iterable[Row] = ()
    ) -> None:
        """Count what another process has met since it was asked the last time; `vision` is of its vision tower.

        `compile_times` are rows of [stage, recipes, seconds, counts]. Raises ValueError for what is no row.
        """
        for row in rows:
            phase, real, ran, batches, compiles = _read(row)
            padded = ran or self._pad(phase, real)
            self.observe(phase, real, padded, batches)
            if compiles:
                self.compiled(phase, padded.bucket, compiles)
        if vision is not None:
            self.vision = self.vision or VisionTally()
            self.vision.absorb(vision)
        for times in map(_compile_times, compile_times):
            known = self.compile_times.get(times.stage)
            self.compile_times[times.stage] = _sum(known, times) if known else times

    @property
    def hits(self) -> int:
        """Batches that met a warm shape."""
        return sum(tally.hits for tally in self.tallies.values())

    @property
    def recompiles(self) -> int:
        """Compiles on the request path, those of the vision tower among them."""
        return sum(tally.compiles for tally in self.tallies.values()) + (self.vision.compiles if self.vision else 0)

    @property
    def cold(self) -> dict[Key, int]:
        """Batches that met a padded shape cold, by that shape."""
        return {key: tally.misses for key, tally in self.tallies.items() if tally.misses}

    def traffic(self) -> Traffic:
        """The real shapes, weighted by their batches: what a plan can be learned from."""
        return Traffic(self._remembered(BucketPhase.PROMPT), self._remembered(BucketPhase.DECODE))

    def _remembered(self, phase: BucketPhase) -> dict[Bucket, float]:
        # A size above all that were observed may be one that the limits do not admit: none is rounded beyond those.
        return within(self._shapes[phase], self._largest[phase])

    def _tally(self, phase: BucketPhase, bucket: Bucket) -> Tally:
        tally = self.tallies.get((phase, bucket))
        if tally is None:
            if len(self.tallies) >= self._most_buckets:
                bucket = to_digits(bucket, digits=1)
            tally = self.tallies.setdefault((phase, bucket), Tally())
        return tally

    def _remember(self, phase: BucketPhase, real: Bucket, batches: int) -> None:
        shapes, largest = self._shapes[phase], self._largest[phase]
        # Compared before it is made: this runs for every batch, and a larger size is rare.
        if real[0] > largest[0] or real[1] > largest[1] or real[2] > largest[2]:
            self._largest[phase] = Bucket(*map(max, real, largest))
        shape = to_digits(real, self._digits[phase])
        shapes[shape] = shapes.get(shape, 0.0) + batches
        if len(shapes) > MOST_SHAPES:
            self._shapes[phase], self._digits[phase] = fewer(shapes, MOST_LINES, self._digits[phase])


def _read(row: Row) -> tuple[BucketPhase, Bucket, Padded | None, int, int]:
    try:
        phase, real, ran, batches, compiles = row
        padded = None if ran is None else Padded(_shape(*ran[:3]), bool(ran[3]))
        return BucketPhase(phase), _shape(*real), padded, _count(batches), _count(compiles)
    except (TypeError, IndexError, ValueError) as error:
        raise ValueError(f"{list(row)} is no row of phase, shape, what it ran as, batches and compiles") from error


def _sum(first: CompileTimes, second: CompileTimes) -> CompileTimes:
    counts = (min(sum(each), MOST_COUNT) for each in zip(first.counts, second.counts, strict=True))
    return CompileTimes(
        stage=first.stage,
        recipes=first.recipes + second.recipes,
        seconds=first.seconds + second.seconds,
        counts=tuple(counts),
    )


def _compile_times(row: Row) -> CompileTimes:
    try:
        stage, recipes, seconds, counts = row
        if len(counts) != len(COMPILE_BOUNDS) + 1:
            raise ValueError(f"{len(counts)} counts")
        bounded = tuple(min(_count(each), MOST_COUNT) for each in counts)
        return CompileTimes(stage=stage, recipes=recipes, seconds=seconds, counts=bounded)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{list(row)} is no row of stage, recipes, seconds and counts") from error


def _shape(size: Any, query: Any, blocks: Any) -> Bucket:
    return Bucket(_count(size), _count(query), _count(blocks))


def _count(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number} is no count")
    return number
