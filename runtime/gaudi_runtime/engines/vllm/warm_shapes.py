"""The shapes that are warm on a CPU."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase


class WarmShapes:
    """Which shapes are warm on a CPU; a card's workers say it of each batch.

    A graph serves every step of at most its number of tokens, and without graphs no shape is ever cold.
    """

    def __init__(self, captures_graphs: bool) -> None:
        self._graphs = captures_graphs
        self._most_tokens = 0

    def add(self, bucket: Bucket) -> None:
        """This bucket has a graph now."""
        self._most_tokens = max(self._most_tokens, bucket.batch_size * bucket.query_len)

    def is_warm(self, _: BucketPhase, bucket: Bucket) -> bool:
        """Whether a batch that is padded to `bucket` waits for no compile."""
        return not self._graphs or bucket.batch_size * bucket.query_len <= self._most_tokens
