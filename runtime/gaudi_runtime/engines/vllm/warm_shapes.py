"""Which padded shapes run as fast as they can: those with a graph, or warmed where the mode has no graphs."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase


class WarmShapes:
    """On a CPU a graph serves every step of at most its number of tokens, and without graphs no shape is ever cold."""

    def __init__(self, device: str, captures_graphs: bool) -> None:
        self._on_cpu, self._graphs = device == "cpu", captures_graphs
        self._warm: set[tuple[BucketPhase, Bucket]] = set()
        self._most_tokens = 0

    def add(self, phase: BucketPhase, bucket: Bucket) -> None:
        """This bucket is warm now."""
        self._warm.add((phase, bucket))
        self._most_tokens = max(self._most_tokens, bucket.batch_size * bucket.query_len)

    def is_warm(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Whether a batch that is padded to `bucket` waits for no compile."""
        if self._on_cpu:
            return not self._graphs or bucket.batch_size * bucket.query_len <= self._most_tokens
        return (phase, bucket) in self._warm
