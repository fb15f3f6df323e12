"""Traffic as weighted shapes, and its text: one shape per line, never evaluated as code (docs/traffic.md, Traffic)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible

Weights = Mapping[Bucket, float]
MOST_LINES = 1500
MOST_DIGITS = 11
MOST_WEIGHT = 1e15
MAX_VALUE = 16_777_216
FORM = "phase, batch size, query, blocks and weight, such as: prompt 1 412 0 17"


@dataclass(frozen=True)
class Traffic:
    """How often each shape is met. Prompt: batches with their real lengths; decode: steps (docs/traffic.md)."""

    prompt: Weights
    decode: Weights

    def of(self, phase: BucketPhase) -> Weights:
        """The shapes of one phase."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode


def read_traffic(text: str, name: str = "bucketing.optimal.traffic") -> Traffic:
    """Traffic from its text. Raises PlanImpossible with `name`, number and text of a bad line."""
    shapes: dict[BucketPhase, dict[Bucket, float]] = {phase: {} for phase in BucketPhase}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.split("#", 1)[0].split()
        if not content:
            continue
        try:
            phase, shape, weight = _read_line(content)
        except ValueError as error:
            raise PlanImpossible(f"{name}, line {number}: {error}: {line[:200]!r}; a line is {FORM}") from error
        shapes[phase][shape] = shapes[phase].get(shape, 0.0) + weight
    return Traffic(shapes[BucketPhase.PROMPT], shapes[BucketPhase.DECODE])


def write_traffic(traffic: Traffic) -> str:
    """The text of traffic, at most 1500 lines a phase: above that, sizes are rounded up to ever fewer binary digits.

    None is rounded beyond the largest, which may be the most that the limits admit.
    """
    lines = []
    for phase in BucketPhase:
        weights = traffic.of(phase)
        for shape, weight in sorted(within(fewer(weights, MOST_LINES)[0], largest(weights)).items()):
            lines.append(f"{phase} {shape.batch_size} {shape.query_len} {shape.num_blocks} {weight:.12g}\n")
    return "".join(lines)


def total(weights: Weights) -> float:
    """Weight of all shapes together."""
    return sum(weights.values())


def _read_line(content: list[str]) -> tuple[BucketPhase, Bucket, float]:
    if len(content) != 5:
        raise ValueError(f"{len(content)} words instead of 5")
    if content[0] not in list(BucketPhase):
        raise ValueError(f"{content[0]} is neither prompt nor decode")
    phase = BucketPhase(content[0])
    batch, query, blocks = (_whole(word) for word in content[1:4])
    if not batch or not query or (phase is BucketPhase.DECODE and (query != 1 or not blocks)):
        raise ValueError("no batch has this shape")
    return phase, Bucket(batch, query, blocks), _weight(content[4])


def _whole(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 8 and int(word) <= MAX_VALUE):
        raise ValueError(f"{word} is not a whole number from 0 to {MAX_VALUE}")
    return int(word)


def _weight(word: str) -> float:
    try:
        weight = float(word)
    except ValueError:
        raise ValueError(f"weight {word} is not a number") from None
    if not (isfinite(weight) and 0 < weight <= MOST_WEIGHT):
        raise ValueError(f"weight {word} is not above 0 and at most {MOST_WEIGHT:g}")
    return weight


def fewer(weights: Weights, most: int, digits: int = MOST_DIGITS) -> tuple[dict[Bucket, float], int]:
    """At most `most` shapes, made by rounding sizes up to ever fewer binary digits, beginning with `digits`.

    With them the digits that were kept. Sizes of a single digit are not made fewer, however many there are.
    """
    kept = dict(weights)
    while len(kept) > most and digits > 1:
        digits -= 1
        kept = _merged((round_up(shape, digits), weight) for shape, weight in kept.items())
    return kept, digits


def largest(shapes: Iterable[Bucket]) -> Bucket:
    """The largest size of each dimension; 0 without shapes."""
    return Bucket(*(max(sizes) for sizes in zip(Bucket(0, 0, 0), *shapes, strict=True)))


def within(weights: Weights, most: Bucket) -> dict[Bucket, float]:
    """The shapes with no size above that of `most`."""
    return _merged((Bucket(*map(min, shape, most)), weight) for shape, weight in weights.items())


def round_up(shape: Bucket, digits: int) -> Bucket:
    """The shape with each size rounded up to `digits` significant binary digits."""
    batch, query, blocks = shape
    return Bucket(_round_up(batch, digits), _round_up(query, digits), _round_up(blocks, digits))


def _merged(items: Iterable[tuple[Bucket, float]]) -> dict[Bucket, float]:
    merged: dict[Bucket, float] = {}
    for shape, weight in items:
        merged[shape] = merged.get(shape, 0.0) + weight
    return merged


def _round_up(value: int, digits: int) -> int:
    """The next number with at most `digits` significant binary digits."""
    spare = value.bit_length() - digits
    return value if spare <= 0 else -(-value >> spare) << spare
