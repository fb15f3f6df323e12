"""The shapes that a worker observes while it serves, and which of them had to be compiled."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase

Row = list[Any]
"""A row of MetShapes.take in the form of JSON, which ServingHistogram.absorb reads."""

Shape = tuple[str, int, int, int]
"""Phase, sequences, query in tokens, KV blocks (prompt: longest context; decode: of the whole batch)."""


@dataclass(frozen=True)
class Scheduled:
    """One sequence of an observed step of a worker: tokens in the cache before it, and tokens that it computes."""

    computed: int
    query: int


def shape_of(sequences: Iterable[Scheduled], block_size: int) -> Shape:
    """Return the shape that a worker observed in a step, in the counts of a plan with `steps_by_tokens`.

    One query above 1 makes the step a prompt of all its tokens, without context.
    """
    step = list(sequences)
    if any(each.query > 1 for each in step):
        return BucketPhase.PROMPT, 1, sum(each.query for each in step), 0
    return BucketPhase.DECODE, len(step), 1, sum(_blocks(each.computed + each.query, block_size) for each in step)


def scheduled(step: Any) -> list[Scheduled]:
    """Return the sequences that a worker observed in a step, from a SchedulerOutput of vLLM."""
    tokens, cached = step.num_scheduled_tokens, step.scheduled_cached_reqs
    computed = {each.req_id: each.num_computed_tokens for each in step.scheduled_new_reqs}
    computed.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return [Scheduled(computed.get(name, 0), query) for name, query in tokens.items()]


@dataclass(frozen=True)
class Ran:
    """The shape that an observed batch was padded to, and whether it was warm: its graph or code existed."""

    bucket: Bucket
    warm: bool


class MetShapes:
    """The shapes that one worker has observed since the last call of `take`, counted."""

    # Counts are deleted when they are handed over, so that a worker that serves for weeks keeps only recent ones.

    def __init__(self) -> None:
        self._batches: Counter[tuple[Shape, Ran | None]] = Counter()
        self._compiles: Counter[tuple[Shape, Ran | None]] = Counter()

    def met(self, shape: Shape, ran: Ran | None = None, compiles: int = 0, batches: int = 1) -> None:
        """Count a batch of this shape with its `compiles`, for which it waited. Without `ran` the plan pads the batch.

        `batches` is 0 if the batch was counted before its compilation was observed.
        """
        self._batches[shape, ran] += batches
        self._compiles[shape, ran] += compiles

    def take(self) -> list[Row]:
        """Return rows [phase, shape, [shape that ran, warm], batches, compiles], and reset the counts."""
        rows = [_row(*met, count, self._compiles[met]) for met, count in self._batches.items()]
        self._batches, self._compiles = Counter(), Counter()
        return rows


def _row(shape: Shape, ran: Ran | None, batches: int, compiles: int) -> Row:
    phase, *sizes = shape
    return [str(phase), sizes, [*ran.bucket, ran.warm] if ran else None, batches, compiles]


def _blocks(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
