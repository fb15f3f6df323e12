"""The shapes that are warm on a CPU."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase


class WarmShapes:
    """The shapes that are warm on a CPU. On a card, the workers report for each batch whether it was warm.

    A graph serves every step that has at most the graph's number of tokens. Without graphs no shape is cold.
    """

    def __init__(self, captures_graphs: bool) -> None:
        self._graphs = captures_graphs
        self._most_tokens = 0

    def add(self, bucket: Bucket) -> None:
        """Record that this bucket has a graph."""
        self._most_tokens = max(self._most_tokens, bucket.batch_size * bucket.query_len)

    def is_warm(self, _: BucketPhase, bucket: Bucket) -> bool:
        """Return whether a batch that is padded to `bucket` needs no compile."""
        return not self._graphs or bucket.batch_size * bucket.query_len <= self._most_tokens
