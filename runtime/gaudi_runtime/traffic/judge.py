"""What a plan makes of traffic: how much it pads, and how much of it has a bucket at all."""

from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.optimal.cost import Cost
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.traffic.histogram import Traffic, total


@dataclass(frozen=True)
class Verdict:
    """graphs: buckets of the phase; padding: padded over real cost of the traffic that has a bucket, 1.0 is none;
    coverage: share of the traffic that has one. Without such traffic both are None.
    """

    graphs: int
    padding: float | None
    coverage: float | None


def judge(plan: BucketPlan, phase: BucketPhase, traffic: Traffic, cost: Cost) -> Verdict:
    """The plan's padding and coverage in one phase, each shape padded to the bucket that `find` answers."""
    padded = real = covered = 0.0
    for shape, weight in traffic.of(phase).items():
        bucket = plan.find(phase, *shape)
        if bucket:
            covered += weight
            padded += weight * cost(phase, bucket)
            real += weight * cost(phase, shape)
    everything = total(traffic.of(phase))
    return Verdict(
        graphs=len(plan.of(phase)),
        padding=padded / real if real else None,
        coverage=covered / everything if everything else None,
    )
