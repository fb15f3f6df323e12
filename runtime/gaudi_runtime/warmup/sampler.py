"""What sampler warm-up runs (docs/warmup.md, Sampler)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from gaudi_runtime.buckets.bucket import Bucket


@dataclass(frozen=True)
class SamplerRun:
    """One run of the sampler. `batch_changed` says whether the batch differs from that of the run before."""

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
