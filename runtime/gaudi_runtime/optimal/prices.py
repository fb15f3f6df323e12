"""What preparing a bucket takes of the budget: a graph, bytes of graph memory, or seconds of warm-up."""

from collections.abc import Callable

from gaudi_runtime.buckets.bucket import Bucket, weight
from gaudi_runtime.cards.gaudi2 import RATES
from gaudi_runtime.contract.report import BucketPhase

Price = Callable[[BucketPhase, Bucket], float]


def one_graph(_phase: BucketPhase, _bucket: Bucket) -> float:
    """Every bucket is one graph."""
    return 1.0


def graph_bytes(block_size: int) -> Price:
    """Bytes of a bucket's graph, estimated from the rates of the seeds' Gaudi 2 (docs/memory.md, Cards)."""
    rates = {
        BucketPhase.PROMPT: RATES.prompt_graph_bytes_per_token.value,
        BucketPhase.DECODE: RATES.decode_graph_bytes_per_sequence.value,
    }
    return lambda phase, bucket: rates[phase] * weight(phase, bucket, block_size)


def warmup_seconds(phase: BucketPhase, _bucket: Bucket) -> float:
    """Seconds to compile and capture a bucket, estimated from the rates of the seeds' Gaudi 2 (docs/memory.md)."""
    if phase is BucketPhase.PROMPT:
        return RATES.prompt_compile_seconds.value + RATES.prompt_capture_seconds.value
    return RATES.decode_compile_seconds.value + RATES.decode_capture_seconds.value
