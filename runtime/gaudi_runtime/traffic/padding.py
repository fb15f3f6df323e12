"""The padding of a learned plan: the forecast from its traffic, and the observed padding of served batches.

See docs/how-to/plan-buckets.md, Learn from traffic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase


def padding_size_class(shape: Bucket) -> int:
    """Return the class of batch sizes that share a padding forecast: the number of binary digits of the batch size."""
    return shape[0].bit_length()


@dataclass(slots=True)
class Padding:
    """The padding of one phase: padded compute divided by real compute. 1.0 means no padding.

    The batch size depends on the load, which a canary shares with older pods. So `by_size` has a forecast for each
    class of batch sizes in the learned traffic. `overall` applies to sizes that are not in this traffic.
    `real_compute`, `padded_compute` and `expected_compute` are sums of compute over the served batches: without
    padding, as padded, and as forecast.
    """

    cost: Callable[[BucketPhase, Bucket], float]
    by_size: Mapping[int, float]
    overall: float
    real_compute: float = 0.0
    padded_compute: float = 0.0
    expected_compute: float = 0.0

    def count_batches(self, phase: BucketPhase, real_shape: Bucket, padded_shape: Bucket, batches: int) -> None:
        """Count `batches` batches of the shape `real_shape` that ran with the shape `padded_shape`."""
        compute = batches * self.cost(phase, real_shape)
        self.real_compute += compute
        self.padded_compute += batches * self.cost(phase, padded_shape)
        self.expected_compute += compute * self.by_size.get(padding_size_class(real_shape), self.overall)

    @property
    def observed(self) -> float | None:
        """The padding of the served batches, or None before the first batch."""
        return self.padded_compute / self.real_compute if self.real_compute else None

    @property
    def forecast(self) -> float:
        """The forecast padding for batches with the sizes that were served."""
        return self.expected_compute / self.real_compute if self.real_compute else self.overall
