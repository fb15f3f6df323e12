"""What a worker meets while it serves: the real shape of every step, and which of them had to be compiled."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.contract.report import BucketPhase

Shape = tuple[str, int, int, int]
"""Phase, sequences, longest query in tokens, KV blocks (prompt: longest context; decode: of the whole batch)."""


@dataclass(frozen=True)
class Scheduled:
    """One sequence of a step: tokens in the cache before it, and tokens that it computes."""

    computed: int
    query: int


def shape_of(sequences: Iterable[Scheduled], block_size: int) -> Shape:
    """The shape of a step, as the plan counts (docs/bucketing.md, Buckets). One query above 1 makes it a prompt."""
    step = list(sequences)
    query = max(each.query for each in step)
    if query > 1:
        return BucketPhase.PROMPT, len(step), query, max(_blocks(each.computed, block_size) for each in step)
    return BucketPhase.DECODE, len(step), 1, sum(_blocks(each.computed + each.query, block_size) for each in step)


def batches_of(sequences: Iterable[Scheduled], block_size: int, prompts_at_once: int) -> list[Shape]:
    """The shapes of a step that is run as one batch of decodes and batches of at most `prompts_at_once` prompts."""
    step = list(sequences)
    decodes, prompts = ([each for each in step if (each.query > 1) is long] for long in (False, True))
    batches = (prompts[at : at + prompts_at_once] for at in range(0, len(prompts), prompts_at_once))
    return [shape_of(batch, block_size) for batch in (decodes, *batches) if batch]


def scheduled(step: Any) -> list[Scheduled]:
    """The sequences of a SchedulerOutput of vLLM."""
    tokens, cached = step.num_scheduled_tokens, step.scheduled_cached_reqs
    computed = {each.req_id: each.num_computed_tokens for each in step.scheduled_new_reqs}
    computed.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return [Scheduled(computed.get(name, 0), query) for name, query in tokens.items()]


class MetShapes:
    """Counts of one worker since the last look."""

    # Handed over and forgotten at every look, so that a worker that serves for weeks holds no more than a look's worth.

    def __init__(self) -> None:
        self._met: Counter[Shape] = Counter()
        self._compiled: Counter[Shape] = Counter()

    def met(self, shape: Shape) -> None:
        """One step of this shape."""
        self._met[shape] += 1

    def compiled(self, shape: Shape, compiles: int = 1) -> None:
        """A step of this shape waited for so many compiles."""
        if compiles:
            self._compiled[shape] += compiles

    def take(self) -> dict[str, list[list[Any]]]:
        """Rows [phase, sequences, query, blocks, count] of steps and of compiles; the counts begin again."""
        rows = {"met": _rows(self._met), "compiled": _rows(self._compiled)}
        self._met, self._compiled = Counter(), Counter()
        return rows


def _rows(counts: Counter[Shape]) -> list[list[Any]]:
    return [[str(phase), *shape, count] for (phase, *shape), count in counts.items()]


def _blocks(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
