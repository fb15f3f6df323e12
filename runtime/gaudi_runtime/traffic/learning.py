"""From the requests of a trace to traffic (docs/traffic.md, Traces)."""

from collections.abc import Iterable, Iterator
from itertools import islice

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.traffic.batching import DEFAULT_PACE, Pace, decode_steps
from gaudi_runtime.traffic.histogram import ShapeCounts, Traffic
from gaudi_runtime.traffic.trace import Request

MOST_SIMULATED = 200_000
"""Requests whose decode steps are simulated: the first ones of a longer trace. Prompts are all counted."""


def traffic_of(requests: Iterable[Request], limits: Limits, kv_blocks: int, pace: Pace = DEFAULT_PACE) -> Traffic:
    """Traffic in one pass; memory grows with the distinct shapes, up to MOST_COUNTED, not with the requests.

    Every prompt counts alone and without cached context: a trace names neither batches nor shared prefixes.
    """
    prompts = ShapeCounts()

    def counted() -> Iterator[Request]:
        for request in requests:
            prompts.add(Bucket(1, request.context, 0))
            yield request

    rest = counted()
    decode = decode_steps(islice(rest, MOST_SIMULATED), limits, kv_blocks, pace)
    for _ in rest:
        pass
    return Traffic(prompts.weights(), decode)
