"""The shapes that a worker observes during serving, and the shapes that had to be compiled."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase

Row = list[Any]
"""A row of MetShapes.take in the form of JSON, which ServingHistogram.absorb reads."""

Shape = tuple[str, int, int, int]
"""Phase, sequences, query in tokens, KV blocks (prompt: longest context; decode: of the whole batch)."""


def observed_shape(step: Any, block_size: int) -> Shape:
    """Return the shape of a step, vLLM's SchedulerOutput, in the units of a plan with `steps_by_tokens`.

    If any sequence has more than one new token, the step counts as one prompt with all its tokens and without context.
    """
    tokens, sequences = step.total_num_scheduled_tokens, len(step.num_scheduled_tokens)
    if tokens > sequences:
        return BucketPhase.PROMPT, 1, tokens, 0
    computed_tokens = list(step.scheduled_cached_reqs.num_computed_tokens)
    computed_tokens += (request.num_computed_tokens for request in step.scheduled_new_reqs)
    return BucketPhase.DECODE, sequences, 1, sum(computed // block_size + 1 for computed in computed_tokens)


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
