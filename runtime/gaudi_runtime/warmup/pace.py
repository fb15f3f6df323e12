"""Measured step times of this warm-up, and what they say about the rest."""

from collections.abc import Sequence

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.warmup.estimate import Work, eta_seconds
from gaudi_runtime.warmup.order import weight

COMPILE = "compile"
CAPTURE = "capture"


class Pace:
    """Keeps (weight, seconds) of the steps done and the weights of those to come, per kind and phase."""

    def __init__(self, plan: BucketPlan, kinds: Sequence[str], block_size: int) -> None:
        self._block_size = block_size
        self._done: dict[tuple[str, BucketPhase], list[tuple[float, float]]] = {}
        self._left: dict[tuple[str, BucketPhase], list[float]] = {}
        for kind in kinds:
            for phase in BucketPhase:
                self._done[kind, phase] = []
                self._left[kind, phase] = [self._weigh(phase, bucket) for bucket in plan.of(phase)]

    def step(self, kind: str, phase: BucketPhase, bucket: Bucket, seconds: float) -> None:
        """One step of `kind` took so long."""
        self._left[kind, phase].remove(self._weigh(phase, bucket))
        self._done[kind, phase].append((self._weigh(phase, bucket), seconds))

    def eta_seconds(self) -> float | None:
        """Seconds until all steps are done, None while nothing was measured."""
        return eta_seconds(Work(self._done[key], self._left[key]) for key in self._done)

    def _weigh(self, phase: BucketPhase, bucket: Bucket) -> float:
        return float(weight(phase, bucket, self._block_size))
