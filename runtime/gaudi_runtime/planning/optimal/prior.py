"""Prior traffic, which is assumed if no traffic is known (docs/internals/optimal.md, Without traffic).

Before a service runs, nothing is known about its traffic, so the prior prefers no size. Each doubling of the prompt
length has the same share of the compute. The same applies to each doubling of the sequences in a step and of the
context of a sequence. Negligibly small sizes and sizes above the limits are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, log2

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_for_query, most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import Cost
from gaudi_runtime.traffic.histogram import Weights

LEAST_PROMPT_BLOCKS = 0.5
"""The length of the shortest prompt. Below it all prompts are padded to the smallest bucket, a whole block."""

LEAST_CONTEXT = 256
"""The tokens of the shortest context per sequence of a decode step: a chat with its system prompt."""

MOST_CONTEXT_SHARE = 0.5
"""The longest mean context of a decode step, as a share of maxModelLen. Sequences of one step are at all positions,
so a step in which all of them are full does not occur."""

POINTS = 8
"""The sizes per doubling: steps of 9 percent, which is finer than any plan."""

CONTEXT_POINTS = 4
"""The sizes per doubling of the context of prompts. The cost of prompts depends much less on their context."""


@dataclass(frozen=True)
class TrafficKind:
    """One kind of prior traffic, and the limit of its padded compute as a multiple of a rival plan's compute."""

    name: str
    weights: Weights
    most: float = 1.0


def sum_traffic(kinds: Iterable[TrafficKind]) -> dict[Bucket, float]:
    """Add up the prior traffic of all kinds."""
    weights: dict[Bucket, float] = {}
    for kind in kinds:
        for shape, weight in kind.weights.items():
            weights[shape] = weights.get(shape, 0.0) + weight
    return weights


def prior_traffic(phase: BucketPhase, limits: Limits, kv_blocks: int, cost: Cost) -> tuple[TrafficKind, ...]:
    """Return the prior traffic of a phase, in batches, for a device with `kv_blocks` KV blocks.

    The kinds of prompts are single prompts without context, single prompts with context, and batches of several
    prompts. Decode steps have one kind for each doubling of their sequences, because the load of a server is not known.
    """
    kinds = _prompt_shares(limits) if phase is BucketPhase.PROMPT else _decode_shares(limits, kv_blocks)
    names: dict[str, dict[Bucket, float]] = {}
    for name, shape, share in kinds:
        weights = names.setdefault(name, {})
        # A share refers to compute, but a weight counts batches. So the share is divided by the cost of a batch.
        weights[shape] = weights.get(shape, 0.0) + share / cost(phase, shape)
    return tuple(TrafficKind(name, weights) for name, weights in names.items())


def _prompt_shares(limits: Limits) -> Iterator[tuple[str, Bucket, float]]:
    """Yield kind, shape and compute share of prompts. Engines merge only prompts without context into one batch."""
    least = ceil(LEAST_PROMPT_BLOCKS * limits.block_size)
    for query in geometric_sizes(min(least, limits.longest_query), limits.longest_query, POINTS):
        yield "one prompt", Bucket(1, query, 0), 1.0
        together = min(limits.max_num_prefill_seqs, limits.max_num_batched_tokens // query)
        for batch in geometric_sizes(2, together, 1) if together > 1 else ():
            yield "several prompts", Bucket(batch, query, 0), 1.0
        most = most_context_for_query(limits, query) if limits.has_context else 0
        contexts = geometric_sizes(1, most, CONTEXT_POINTS) if most else []
        for context in contexts:
            yield "one prompt with context", Bucket(1, query, context), 1 / len(contexts)


def _decode_shares(limits: Limits, kv_blocks: int) -> Iterator[tuple[str, Bucket, float]]:
    longest = ceil(limits.max_model_len / limits.block_size)

    def most_blocks(sequences: int) -> int:
        # This limit also applies to contiguous attention: the plugin moves blocks down, so the highest block in use is
        # close to the number of blocks in use.
        return min(sequences * longest, most_decode_blocks(sequences, limits, kv_blocks))

    most = MOST_CONTEXT_SHARE * limits.max_model_len / limits.block_size
    least = min(LEAST_CONTEXT / limits.block_size, most)
    steps = ceil(POINTS * log2(most / least))
    contexts = [least * (most / least) ** (step / max(steps, 1)) for step in range(steps + 1)]
    for asked in geometric_sizes(1, min(limits.max_num_seqs, kv_blocks), POINTS):
        low = 1 << asked.bit_length() - 1
        for context in contexts:
            # If the device has too few blocks for all sequences, fewer sequences run at the same time.
            fitting = max(1, min(asked, int(most_blocks(asked) / context)))
            blocks = max(fitting, min(round(fitting * context), most_blocks(fitting)))
            yield f"{low} to {2 * low - 1} sequences", Bucket(fitting, 1, blocks), 1.0


def geometric_sizes(least: int, most: int, points: int) -> list[int]:
    """Return the sizes of prior traffic: whole numbers from `least` to `most`, with about `points` per doubling."""
    steps = ceil(points * log2(most / least))
    return sorted({round(least * (most / least) ** (step / steps)) for step in range(steps + 1)}) if steps else [most]
