"""In which order buckets are compiled and captured (docs/warmup.md, Capture order)."""

from collections.abc import Iterable

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
