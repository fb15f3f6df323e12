"""The Azure conversation trace of 2023 for tests and benchmarks (tests/data/README.md)."""

import gzip
from collections import Counter
from pathlib import Path

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.traffic.batching import read_traffic_of_trace
from gaudi_runtime.traffic.histogram import Traffic
from gaudi_runtime.traffic.trace import Request, read_trace

TRACE = Path(__file__).parents[1] / "data" / "azure_conv.csv.gz"


def requests() -> list[Request]:
    """Return all requests in order of arrival."""
    with gzip.open(TRACE) as lines:
        return list(read_trace(lines))


def halves() -> tuple[list[Request], list[Request]]:
    """Return the earlier and the later half of the requests."""
    everything = requests()
    return everything[: len(everything) // 2], everything[len(everything) // 2 :]


def prompts(half: list[Request]) -> Traffic:
    """Return traffic with one prompt batch per request and without decode steps."""
    return Traffic(Counter(Bucket(1, request.context_tokens, 0) for request in half), {})


def traffic(half: list[Request], limits: Limits, kv_blocks: int) -> Traffic:
    """Return the traffic of the requests in `half`, with simulated decode steps."""
    return read_traffic_of_trace(half, limits, kv_blocks)
