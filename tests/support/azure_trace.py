"""The Azure conversation trace of 2023 for tests and benchmarks (tests/data/README.md)."""

import csv
import gzip
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.traffic.histogram import Traffic
from tests.support.simulated_batching import Request, read_traffic_of_trace

TRACE = Path(__file__).parents[1] / "data" / "azure_conv.csv.gz"


def read_requests(lines: Iterable[str]) -> list[Request]:
    """Return the requests of a trace with the columns of the dataset, in order of arrival."""
    rows = (
        Request(_seconds(row["TIMESTAMP"]), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
        for row in csv.DictReader(lines)
    )
    return sorted(rows, key=lambda request: request.arrival)


def _seconds(cell: str) -> float:
    """Return the seconds of a cell, which is a number or a date with time."""
    return datetime.fromisoformat(cell).timestamp() if "-" in cell else float(cell)


def requests() -> list[Request]:
    """Return all requests in order of arrival."""
    with gzip.open(TRACE, "rt") as lines:
        return read_requests(lines)


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
