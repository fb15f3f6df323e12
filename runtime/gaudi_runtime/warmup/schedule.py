"""What warm-up runs, in which order: buckets to compile, runs of the sampler, swaps of blocks, graphs to capture.

Pure: a plan in, sequences out (docs/warmup.md, Order of start-up).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.contract.report import BucketPhase

Order = tuple[Bucket, ...]


def compile_order(plan: BucketPlan, phase: BucketPhase) -> Order:
    """Largest first, so that the memory peak comes at once and later shapes reuse its workspace."""
    return _fewest_tokens_first(plan.of(phase), phase)[::-1]


def capture_order(plan: BucketPlan, phase: BucketPhase, order: CaptureOrder) -> Order:
    """The queue of one phase: those most worth a graph come first."""
    if order is CaptureOrder.MIN_TOKENS:
        return _fewest_tokens_first(plan.of(phase), phase)
    if order is CaptureOrder.LARGEST_FIRST:
        return tuple(sorted(plan.of(phase), reverse=True))
    return tuple(sorted(plan.of(phase), key=lambda b: (-b.batch_size, b.query_len, b.num_blocks)))


def _fewest_tokens_first(buckets: Iterable[Bucket], phase: BucketPhase) -> Order:
    """Ascending by (batch size * length, length, batch size); the length of a decode bucket is its blocks."""
    if phase is BucketPhase.DECODE:
        return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.num_blocks, b.num_blocks, b.batch_size)))
    return tuple(sorted(buckets, key=lambda b: (b.batch_size * b.query_len, b.query_len, b.batch_size, b.num_blocks)))


@dataclass(frozen=True)
class SamplerRun:
    """One run of the sampler; `batch_changed` says whether the batch differs from that of the run before."""

    temperature: float
    top_p: float
    top_k: int
    batch_changed: bool


_SETTINGS = (
    (0.0, 1.0, 0),
    (1.0, 1.0, 0),
    (0.7, 0.9, 50),
    (0.3, 0.95, 20),
    (1.2, 0.8, 100),
    (0.8, 0.85, 0),
)

SAMPLER_RUNS = tuple(
    SamplerRun(*setting, batch_changed=changed) for changed, setting in product((True, False), _SETTINGS)
)
"""The runs for every batch size: greedy, plain random, and four filtered settings, changed and unchanged."""


def sampler_batch_sizes(decode: Sequence[Bucket]) -> tuple[int, ...]:
    """0 (the empty path) and 1, then the distinct batch sizes of the decode buckets, ascending."""
    return tuple(sorted({0, 1} | {bucket.batch_size for bucket in decode}))


SWAP_SIZES = (8, 16, 32, 64, 128, 256, 512)
"""Pairs of a swap of the defragmenter after padding, ascending; a step swaps at most the largest."""

MIN_BLOCKS = 2
"""With fewer KV blocks there is no pair to swap, and warm-up of the defragmenter is skipped with a warning."""


def warmup_swaps() -> tuple[int, ...]:
    """Padded sizes to swap the blocks (1, 0) at, in order.

    Their number is even, so the cache ends as it began: the first size comes again where needed.
    """
    return SWAP_SIZES if len(SWAP_SIZES) % 2 == 0 else (*SWAP_SIZES, SWAP_SIZES[0])
