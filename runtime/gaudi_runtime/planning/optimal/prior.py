"""Traffic that stands in where none is known (docs/internals/optimal.md, Without traffic).

Nothing is known of a service before it serves, so the prior favours no size: every doubling of the length of a prompt,
of the number of sequences in a step and of the context of a sequence has the same share of the compute. Only what is
below a size that matters, or above what the limits admit, is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log2

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_of, most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import Cost
from gaudi_runtime.traffic.histogram import Weights

LEAST_PROMPT_BLOCKS = 0.5
"""Length of the shortest prompt. The smallest bucket holds a whole block: below, all prompts are padded alike."""

LEAST_CONTEXT = 256
"""Tokens of the shortest context per sequence of a decode step: a chat with its system prompt."""

MOST_CONTEXT_SHARE = 0.5
"""Longest mean context of a decode step, as a share of maxModelLen: sequences of one step are at all positions, so a
step in which all of them are full does not occur."""

POINTS = 8
"""Sizes for each doubling: steps of 9 percent, which is finer than any plan."""

CONTEXT_POINTS = 4
"""The same for the context of prompts, whose cost depends on it much less."""


@dataclass(frozen=True)
class Kind:
    """Traffic of one kind, and the most compute that it may be padded to, as a multiple of that of a rival's plan."""

    name: str
    weights: Weights
    most: float = 1.0


def prior(phase: BucketPhase, limits: Limits, kv_blocks: int, cost: Cost) -> tuple[Kind, ...]:
    """Return the prior of a phase, in batches, for a device with `kv_blocks` KV blocks.

    Single prompts without context, single prompts with it, and batches of several prompts are a kind each. So are
    decode steps for every doubling of their sequences, since it is not known how busy a server will be.
    """
    kinds = _prompts(limits) if phase is BucketPhase.PROMPT else _decodes(limits, kv_blocks)
    names: dict[str, dict[Bucket, float]] = {}
    for name, shape, share in kinds:
        weights = names.setdefault(name, {})
        # Shares are of the compute, weights count batches.
        weights[shape] = weights.get(shape, 0.0) + share / cost(phase, shape)
    return tuple(Kind(name, weights) for name, weights in names.items())


def _prompts(limits: Limits) -> Iterator[tuple[str, Bucket, float]]:
    """Yield kind, shape and share of the compute. Engines merge only prompts without context into one batch."""
    least = ceil(LEAST_PROMPT_BLOCKS * limits.block_size)
    for query in sizes(min(least, limits.longest_query), limits.longest_query, POINTS):
        yield "one prompt", Bucket(1, query, 0), 1.0
        together = min(limits.max_num_prefill_seqs, limits.max_num_batched_tokens // query)
        for batch in sizes(2, together, 1) if together > 1 else ():
            yield "several prompts", Bucket(batch, query, 0), 1.0
        most = most_context_of(limits, query) if limits.has_context else 0
        contexts = sizes(1, most, CONTEXT_POINTS) if most else []
        for context in contexts:
            yield "one prompt with context", Bucket(1, query, context), 1 / len(contexts)


def _decodes(limits: Limits, kv_blocks: int) -> Iterator[tuple[str, Bucket, float]]:
    longest = ceil(limits.max_model_len / limits.block_size)

    def most_blocks(sequences: int) -> int:
        # Also with contiguous attention: the plugin moves blocks down, so that the highest one is near their number.
        return min(sequences * longest, most_decode_blocks(sequences, limits, kv_blocks))

    most = MOST_CONTEXT_SHARE * limits.max_model_len / limits.block_size
    least = min(LEAST_CONTEXT / limits.block_size, most)
    steps = ceil(POINTS * log2(most / least))
    contexts = [least * (most / least) ** (step / max(steps, 1)) for step in range(steps + 1)]
    for asked in sizes(1, min(limits.max_num_seqs, kv_blocks), POINTS):
        low = 1 << asked.bit_length() - 1
        for context in contexts:
            # Where the device has no room for so many of them, fewer run at a time.
            fitting = max(1, min(asked, int(most_blocks(asked) / context)))
            blocks = max(fitting, min(round(fitting * context), most_blocks(fitting)))
            yield f"{low} to {2 * low - 1} sequences", Bucket(fitting, 1, blocks), 1.0


def sizes(least: int, most: int, points: int) -> list[int]:
    """Distinct whole numbers from `least` to `most`, about `points` for each doubling."""
    steps = ceil(points * log2(most / least))
    return sorted({round(least * (most / least) ** (step / steps)) for step in range(steps + 1)}) if steps else [most]
