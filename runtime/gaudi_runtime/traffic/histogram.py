"""Traffic as a histogram of weighted shapes, and its text form with one shape per line.

See docs/how-to/plan-buckets.md, Learn from traffic. The text is never evaluated as code.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import MOST_TEXT
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.contract.text import safe_excerpt
from gaudi_runtime.errors import PlanImpossible

Weights = Mapping[Bucket, float]
MOST_LINES = 1200
MOST_DIGITS = 11
MOST_WEIGHT = 1e15
MAX_VALUE = 16_777_216
FORM = "phase, batch size, query, blocks and weight, such as: prompt 1 412 0 17"


@dataclass(frozen=True)
class Traffic:
    """A histogram of traffic: weights of prompt batches, by their lengths before padding, and of decode steps.

    See docs/how-to/plan-buckets.md.
    """

    prompt: Weights
    decode: Weights

    def shapes_of(self, phase: BucketPhase) -> Weights:
        """Return the weighted shapes of one phase."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode


def parse_traffic(text: str, name: str = "bucketing.optimal.traffic") -> Traffic:
    """Parse a histogram of traffic. Raises PlanImpossible with `name` and the number and text of a wrong line."""
    weights: dict[BucketPhase, dict[Bucket, float]] = {phase: {} for phase in BucketPhase}
    line_count = 0
    for line_number, line in enumerate(text.splitlines(), start=1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        line_count += 1
        if line_count > 2 * MOST_LINES:
            raise PlanImpossible(f"the histogram has more than {2 * MOST_LINES} lines", name)
        try:
            phase, shape, weight = _parse_line(fields)
        except ValueError as error:
            raise PlanImpossible(f"line {line_number}: {error}: {line[:200]!r}. A line has {FORM}", name) from error
        weights[phase][shape] = weights[phase].get(shape, 0.0) + weight
    return Traffic(weights[BucketPhase.PROMPT], weights[BucketPhase.DECODE])


def format_traffic(traffic: Traffic) -> str:
    """Write traffic as a text histogram of at most 1200 lines per phase and 64 KiB.

    A larger histogram is shortened: sizes are rounded up to fewer binary digits. No size is rounded above the largest
    size, because this size may be the largest one that the limits admit.
    """
    max_shapes = MOST_LINES
    # The length of the text is known only after the text is formatted. So each try uses a quarter fewer shapes.
    while len(text := _format_merged(traffic, max_shapes)) > MOST_TEXT and max_shapes:
        max_shapes = max_shapes * 3 // 4
    return text


def _format_merged(traffic: Traffic, max_shapes: int) -> str:
    lines = []
    for phase in BucketPhase:
        weights = traffic.shapes_of(phase)
        for (batch_size, query_len, blocks), weight in sorted(
            cap_histogram_sizes(merge_histogram_shapes(weights, max_shapes)[0], _largest_sizes(weights)).items()
        ):
            lines.append(f"{phase} {batch_size} {query_len} {blocks} {min(weight, MOST_WEIGHT):.12g}\n")
    return "".join(lines)


def histogram_weight(weights: Weights) -> float:
    """Return the sum of the weights of all shapes."""
    return sum(weights.values())


def _parse_line(fields: list[str]) -> tuple[BucketPhase, Bucket, float]:
    if len(fields) != 5:
        raise ValueError(f"the line has {len(fields)} fields instead of 5")
    if fields[0] not in list(BucketPhase):
        raise ValueError(f"the phase {safe_excerpt(fields[0])} is neither prompt nor decode")
    phase = BucketPhase(fields[0])
    batch_size, query_len, blocks = (_parse_size(field) for field in fields[1:4])
    if not batch_size or not query_len or (phase is BucketPhase.DECODE and (query_len != 1 or not blocks)):
        raise ValueError("batch size and query must be above 0, and a decode shape needs query 1 and blocks above 0")
    return phase, Bucket(batch_size, query_len, blocks), _parse_weight(fields[4])


def _parse_size(field: str) -> int:
    if not (field.isascii() and field.isdigit() and len(field) <= 8 and int(field) <= MAX_VALUE):
        raise ValueError(f"{safe_excerpt(field)} is not a whole number from 0 to {MAX_VALUE}")
    return int(field)


def _parse_weight(field: str) -> float:
    try:
        weight = float(field)
    except ValueError:
        raise ValueError(f"weight {safe_excerpt(field)} is not a number") from None
    if not (isfinite(weight) and 0 < weight <= MOST_WEIGHT):
        raise ValueError(f"weight {safe_excerpt(field)} must be above 0 and at most {MOST_WEIGHT:g}")
    return weight


def merge_histogram_shapes(
    weights: Weights, max_shapes: int, digits: int = MOST_DIGITS
) -> tuple[dict[Bucket, float], int]:
    """Merge a histogram to at most `max_shapes` shapes by rounding sizes up to fewer and fewer binary digits.

    Rounding starts at `digits` binary digits. The result contains the merged shapes and the final number of digits.
    Sizes with a single digit are not merged further.
    """
    merged = dict(weights)
    while len(merged) > max_shapes and digits > 1:
        digits -= 1
        merged = _sum_by_shape((round_histogram_sizes_up(shape, digits), weight) for shape, weight in merged.items())
    return merged, digits


def _largest_sizes(shapes: Iterable[Bucket]) -> Bucket:
    """Return the largest size in each dimension of a histogram's shapes, or 0 if there are no shapes."""
    return Bucket(*(max(sizes) for sizes in zip(Bucket(0, 0, 0), *shapes, strict=True)))


def cap_histogram_sizes(weights: Weights, max_sizes: Bucket) -> dict[Bucket, float]:
    """Return the shapes of a histogram with each size capped at the size of `max_sizes`."""
    return _sum_by_shape((Bucket(*map(min, shape, max_sizes)), weight) for shape, weight in weights.items())


def round_histogram_sizes_up(shape: Bucket, digits: int) -> Bucket:
    """Round each size of a shape up to `digits` significant binary digits."""
    batch_size, query_len, blocks = shape
    return Bucket(_round_up(batch_size, digits), _round_up(query_len, digits), _round_up(blocks, digits))


def _sum_by_shape(items: Iterable[tuple[Bucket, float]]) -> dict[Bucket, float]:
    weights: dict[Bucket, float] = {}
    for shape, weight in items:
        weights[shape] = weights.get(shape, 0.0) + weight
    return weights


def _round_up(value: int, digits: int) -> int:
    """Return the smallest number >= value with at most `digits` significant binary digits."""
    extra_bits = value.bit_length() - digits
    return value if extra_bits <= 0 else -(-value >> extra_bits) << extra_bits
