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
    """One sequence in a step of a worker: `computed_tokens` cached and `query_tokens` new tokens."""

    computed_tokens: int
    query_tokens: int


def observed_shape(sequences: Iterable[ScheduledSequence], block_size: int) -> Shape:
    """Return the shape of a step in the units of a plan with `steps_by_tokens`.

    If any sequence has more than one new token, the step counts as one prompt with all its tokens and without context.
    """
    step = list(sequences)
    if any(sequence.query_tokens > 1 for sequence in step):
        return BucketPhase.PROMPT, 1, sum(sequence.query_tokens for sequence in step), 0
    blocks = sum(_block_count(sequence.computed_tokens + sequence.query_tokens, block_size) for sequence in step)
    return BucketPhase.DECODE, len(step), 1, blocks


def scheduled_sequences(step: Any) -> list[ScheduledSequence]:
    """Return the sequences of a step from vLLM's SchedulerOutput."""
    token_counts, cached_requests = step.num_scheduled_tokens, step.scheduled_cached_reqs
    computed_tokens = {request.req_id: request.num_computed_tokens for request in step.scheduled_new_reqs}
    computed_tokens.update(zip(cached_requests.req_ids, cached_requests.num_computed_tokens, strict=True))
    return [ScheduledSequence(computed_tokens.get(name, 0), query) for name, query in token_counts.items()]


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

    def count_batch(self, shape: Shape, padded: PaddedRun | None = None, compiles: int = 0, batches: int = 1) -> None:
        """Count a batch of this shape and the `compiles` that it waited for. Without `padded`, the plan pads the batch.

        `batches` is 0 if the batch was counted before its compilation was observed.
        """
        self._batches[shape, padded] += batches
        self._compiles[shape, padded] += compiles

    def pop_rows(self) -> list[Row]:
        """Return rows [phase, shape, [padded shape, warm], batches, compiles], and reset the counts."""
        rows = [_row(*key, count, self._compiles[key]) for key, count in self._batches.items()]
        self._batches, self._compiles = Counter(), Counter()
        return rows


def _row(shape: Shape, padded: PaddedRun | None, batches: int, compiles: int) -> Row:
    phase, *sizes = shape
    return [str(phase), sizes, [*padded.bucket, padded.warm] if padded else None, batches, compiles]


def _block_count(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
