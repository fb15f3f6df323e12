"""The shapes that a worker observes during serving, and the shapes that had to be compiled."""

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
class ScheduledSequence:
    """One sequence in a step of a worker: `computed` cached tokens and `query` new tokens."""

    computed: int
    query: int


def observed_shape(sequences: Iterable[ScheduledSequence], block_size: int) -> Shape:
    """Return the shape of a step in the units of a plan with `steps_by_tokens`.

    If any sequence has more than one new token, the step counts as one prompt with all its tokens and without context.
    """
    step = list(sequences)
    if any(each.query > 1 for each in step):
        return BucketPhase.PROMPT, 1, sum(each.query for each in step), 0
    return BucketPhase.DECODE, len(step), 1, sum(_block_count(each.computed + each.query, block_size) for each in step)


def scheduled_sequences(step: Any) -> list[ScheduledSequence]:
    """Return the sequences of a step from vLLM's SchedulerOutput."""
    tokens, cached = step.num_scheduled_tokens, step.scheduled_cached_reqs
    computed = {each.req_id: each.num_computed_tokens for each in step.scheduled_new_reqs}
    computed.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return [ScheduledSequence(computed.get(name, 0), query) for name, query in tokens.items()]


@dataclass(frozen=True)
class PaddedRun:
    """The padded shape of an observed batch, and whether its graph or code already existed (warm)."""

    bucket: Bucket
    warm: bool


class ObservedShapes:
    """The counts of the shapes that one worker has observed since the last call of `take`."""

    # `take` deletes the counts that it returns. Otherwise the memory of a worker that serves for weeks would grow.

    def __init__(self) -> None:
        self._batches: Counter[tuple[Shape, PaddedRun | None]] = Counter()
        self._compiles: Counter[tuple[Shape, PaddedRun | None]] = Counter()

    def count_batch(self, shape: Shape, ran: PaddedRun | None = None, compiles: int = 0, batches: int = 1) -> None:
        """Count a batch of this shape and the `compiles` that it waited for. Without `ran`, the plan pads the batch.

        `batches` is 0 if the batch was counted before its compilation was observed.
        """
        self._batches[shape, ran] += batches
        self._compiles[shape, ran] += compiles

    def pop_rows(self) -> list[Row]:
        """Return rows [phase, shape, [padded shape, warm], batches, compiles], and reset the counts."""
        rows = [_row(*met, count, self._compiles[met]) for met, count in self._batches.items()]
        self._batches, self._compiles = Counter(), Counter()
        return rows


def _row(shape: Shape, ran: PaddedRun | None, batches: int, compiles: int) -> Row:
    phase, *sizes = shape
    return [str(phase), sizes, [*ran.bucket, ran.warm] if ran else None, batches, compiles]


def _block_count(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
