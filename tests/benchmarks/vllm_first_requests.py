"""The latency of the first and the hundredth request of a shape after Ready, with and without our warm-up."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from tests.benchmarks.vllm_servers import Server

REQUESTS = 100
ONE, TWO = [[7]], [[7], [8]]
BUCKETS = {
    "decode, batch 1": (ONE, 2),
    "decode, batch 2": (TWO, 2),
    "prompt, 64 tokens": ([[7] * 64], 1),
    "prompt, 128 tokens": ([[7] * 128], 1),
}
"""Name -> prompts of a request that fills the bucket, and tokens of its answers.

Without warm-up the small ones must come first, because a step uses any larger graph that exists.
"""
LEAST_STEPS = 2 + 2 + 1 + 1
"""The steps that vLLM needs for one request of each."""


@dataclass(frozen=True)
class Firsts:
    """Latencies of requests of one bucket, in milliseconds."""

    name: str
    first: float
    last: float


def measure(server: Server, requests: int = REQUESTS) -> list[Firsts]:
    """Send the requests one after the other, bucket by bucket, to a server that has not answered a request before."""
    rows = []
    for name, (prompts, tokens) in BUCKETS.items():
        took = [_milliseconds(server, prompts, tokens) for _ in range(requests)]
        rows.append(Firsts(name, took[0], took[-1]))
    return rows


def _milliseconds(server: Server, prompts: list[list[int]], tokens: int) -> float:
    started = time.perf_counter()
    server.complete(prompts, tokens)
    return 1000 * (time.perf_counter() - started)


def compiles_met(server: Server, requests: int = REQUESTS) -> int:
    """Return how many of these requests waited for a compilation, after the runtime has counted all their steps."""

    def counted() -> bool:
        served = server.report().served
        steps = sum(phase.hits + phase.misses for phase in (served.prompt, served.decode))
        return steps >= requests * LEAST_STEPS

    server.until(counted)
    return server.report().recompiles_since_ready


def table(warm: Sequence[Firsts], cold: Sequence[Firsts]) -> Table:
    """Return the table of both servers."""
    shown = Table(title="First request after Ready, in milliseconds (torchCompile)", title_justify="left")
    shown.add_column("bucket")
    for heading in ("first, warmed up", "hundredth", "first, without warm-up", "hundredth"):
        shown.add_column(heading, justify="right")
    for with_, without in zip(warm, cold, strict=True):
        row = (with_.first, with_.last, without.first, without.last)
        shown.add_row(with_.name, *(f"{each:.1f}" for each in row))
    return shown
