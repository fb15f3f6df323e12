"""Prior traffic, which is assumed if no traffic is known (docs/internals/optimal.md, Without traffic).

Before a service runs, nothing is known about its traffic, so the prior prefers no size. Each doubling of the prompt
length has the same share of the compute. The same applies to each doubling of the sequences in a step and of the
context of a sequence. Negligibly small sizes and sizes above the limits are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, log2

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_kv_blocks_for_query, most_decode_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import Cost
from gaudi_runtime.traffic.histogram import Weights

LEAST_PROMPT_BLOCKS = 0.5
"""The length of the shortest prompt. Below it all prompts are padded to the smallest bucket, a whole block."""

LEAST_CONTEXT = 256
"""The tokens of the shortest context per sequence of a decode step: a chat with its system prompt."""

NARROW_RATIO = 1.015
"""The limit of decode steps with similar numbers of sequences and contexts."""

BUSY_RATIO = 0.995
"""The limit of decode steps with the most sequences. A server under load runs only these steps."""

TOTAL_RATIO = 0.985
"""The limit of all decode steps together. Traffic of few sizes may be padded more than the mean of its kind."""

LITTLE_PADDING = 1.02
"""The padding of decode steps that is always allowed. Less is not worth further graphs."""

POINTS = 8
"""The sizes per doubling: steps of 9 percent, which is finer than any plan."""

CONTEXT_POINTS = 4
"""The sizes per doubling of the context of prompts. The cost of prompts depends much less on their context."""


@dataclass(frozen=True)
class PriorTrafficKind:
    """One kind of traffic, and the limit of its padded compute as a multiple of a reference plan's compute.

    Padded compute up to `allowed_padding` times the real compute is always within the limit.
    """

    name: str
    weights: Weights
    max_ratio: float = 1.0
    allowed_padding: float = 1.0


def sum_prior_traffic(kinds: Iterable[PriorTrafficKind]) -> dict[Bucket, float]:
    """Add up the prior traffic of all kinds."""
    weights: dict[Bucket, float] = {}
    for kind in kinds:
        for shape, weight in kind.weights.items():
            weights[shape] = weights.get(shape, 0.0) + weight
    return weights


def prior_kinds(phase: BucketPhase, limits: Limits, kv_blocks: int, cost: Cost) -> tuple[PriorTrafficKind, ...]:
    """Return the kinds of prior traffic, and for decode steps also their sum as a kind with a limit of its own."""
    kinds = prior_traffic(phase, limits, kv_blocks, cost)
    if phase is BucketPhase.PROMPT:
        return kinds
    return *kinds, PriorTrafficKind("all decode steps", sum_prior_traffic(kinds), TOTAL_RATIO, LITTLE_PADDING)


def prior_traffic(phase: BucketPhase, limits: Limits, kv_blocks: int, cost: Cost) -> tuple[PriorTrafficKind, ...]:
    """Return the prior traffic of a phase, in batches, for a device with `kv_blocks` KV blocks.

    The kinds of prompts are single prompts without context, single prompts with context, and batches of several
    prompts. Decode steps have one kind for each doubling of their sequences and of their mean context, because neither
    the load of a server nor the length of its answers is known.
    """
    shares = _prompt_shares(limits) if phase is BucketPhase.PROMPT else _decode_shares(limits, kv_blocks)
    weights_by_kind: dict[tuple[str, float], dict[Bucket, float]] = {}
    for name, max_ratio, shape, share in shares:
        weights = weights_by_kind.setdefault((name, max_ratio), {})
        # A share refers to compute, but a weight counts batches. So the share is divided by the cost of a batch.
        weights[shape] = weights.get(shape, 0.0) + share / cost(phase, shape)
    allowed = 1.0 if phase is BucketPhase.PROMPT else LITTLE_PADDING
    return tuple(
        PriorTrafficKind(name, weights, max_ratio, allowed) for (name, max_ratio), weights in weights_by_kind.items()
    )


def _prompt_shares(limits: Limits) -> Iterator[tuple[str, float, Bucket, float]]:
    """Yield kind, limit, shape and compute share of prompts. Engines batch only prompts without context."""
    min_tokens = ceil(LEAST_PROMPT_BLOCKS * limits.block_size)
    for query_len in geometric_prior_sizes(min(min_tokens, limits.longest_query), limits.longest_query, POINTS):
        yield "one prompt", 1.0, Bucket(1, query_len, 0), 1.0
        max_batch_size = min(limits.max_num_prefill_seqs, limits.max_num_batched_tokens // query_len)
        for batch_size in geometric_prior_sizes(2, max_batch_size, 1) if max_batch_size > 1 else ():
            yield "several prompts", 1.0, Bucket(batch_size, query_len, 0), 1.0
        max_context = most_context_kv_blocks_for_query(limits, query_len)
        contexts = geometric_prior_sizes(1, max_context, CONTEXT_POINTS) if max_context else []
        for context_blocks in contexts:
            yield "one prompt with context", 1.0, Bucket(1, query_len, context_blocks), 1 / len(contexts)


def _decode_shares(limits: Limits, kv_blocks: int) -> Iterator[tuple[str, float, Bucket, float]]:
    blocks_per_sequence = ceil(limits.max_model_len / limits.block_size)

    def most_blocks(sequences: int) -> int:
        # This limit also applies to contiguous attention: the plugin moves blocks down, so the highest block in use is
        # close to the number of blocks in use.
        return min(sequences * blocks_per_sequence, most_decode_blocks(sequences, limits, kv_blocks))

    max_context = limits.max_model_len / limits.block_size
    min_context = min(LEAST_CONTEXT / limits.block_size, max_context)
    steps = ceil(POINTS * log2(max_context / min_context))
    contexts = [min_context * (max_context / min_context) ** (step / max(steps, 1)) for step in range(steps + 1)]
    for batch_size in geometric_prior_sizes(1, min(limits.max_num_seqs, kv_blocks), POINTS):
        min_sequences = 1 << batch_size.bit_length() - 1
        max_ratio = BUSY_RATIO if 2 * min_sequences > limits.max_num_seqs else NARROW_RATIO
        for context in contexts:
            # If the device has too few blocks for all sequences, fewer sequences run at the same time.
            fitting_sequences = max(1, min(batch_size, int(most_blocks(batch_size) / context)))
            blocks = max(fitting_sequences, min(round(fitting_sequences * context), most_blocks(fitting_sequences)))
            min_blocks = 2 ** floor(log2(blocks / fitting_sequences))
            name = f"{min_sequences} to {2 * min_sequences - 1} sequences of {min_blocks} to {2 * min_blocks} blocks"
            yield name, max_ratio, Bucket(fitting_sequences, 1, blocks), 1.0


def geometric_prior_sizes(low: int, high: int, points: int) -> list[int]:
    """Return the sizes of prior traffic: whole numbers from `low` to `high`, with about `points` per doubling."""
    steps = ceil(points * log2(high / low))
    return sorted({round(low * (high / low) ** (step / steps)) for step in range(steps + 1)}) if steps else [high]
