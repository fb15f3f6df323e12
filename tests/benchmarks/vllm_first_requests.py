"""What the first request of a shape costs after Ready, beside the hundredth: with our warm-up and without."""

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
"""Name -> prompts of a request that fills the bucket, and tokens of its answers; without warm-up the small ones must
come first, since a step takes any larger graph that is there already."""
LEAST_STEPS = 2 + 2 + 1 + 1
"""That vLLM needs for one request of each."""


@dataclass(frozen=True)
class Firsts:
    """Milliseconds of whole requests of one bucket."""

    name: str
    first: float
    last: float


def measure(server: Server, requests: int = REQUESTS) -> list[Firsts]:
    """One request after the other, bucket by bucket, on a server that has answered none."""
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
    """How often these requests have waited for a compile, once the runtime has counted all their steps."""

    def counted() -> bool:
        served = server.report().served
        steps = sum(phase.hits + phase.misses for phase in (served.prompt, served.decode))
        return steps >= requests * LEAST_STEPS

    server.until(counted)
    return server.report().recompiles_since_ready


def table(warm: Sequence[Firsts], cold: Sequence[Firsts]) -> Table:
    """Both servers side by side."""
    shown = Table(title="First request after Ready, in milliseconds (torchCompile)", title_justify="left")
    shown.add_column("bucket")
    for heading in ("first, warmed up", "hundredth", "first, without warm-up", "hundredth"):
        shown.add_column(heading, justify="right")
    for with_, without in zip(warm, cold, strict=True):
        row = (with_.first, with_.last, without.first, without.last)
        shown.add_row(with_.name, *(f"{each:.1f}" for each in row))
    return shown
