"""The serving overhead of our process: the same load on our runtime and on vLLM's own server, in pairs.

Processes of the same program differ by up to 4 % in speed, so the pairs come from several starts of both servers.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from tests.benchmarks.vllm_load import LoadResult, run_load

PAIRS = 4
"""The pairs of runs after each start of both servers."""
LOADS = {1: 16, 8: 80, 32: 160}
"""Concurrent clients -> requests of one run, which takes about a second."""
FIGURES = {
    "tokens per second": ("tokens_per_second", 1.0),
    "time to first token, p50": ("first_token_p50", 1000.0),
    "time to first token, p99": ("first_token_p99", 1000.0),
    "inter-token latency, p50": ("next_token_p50", 1000.0),
    "inter-token latency, p99": ("next_token_p99", 1000.0),
}
"""Name -> field of LoadResult, and its factor for printing: latencies are in milliseconds."""
LEAST = 0.95


@dataclass(frozen=True)
class Comparison:
    """One figure over all pairs at one load. `ratio` and its 95 % interval are above 1 if our runtime is better."""

    clients: int
    name: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float

    @property
    def missed(self) -> bool:
        """Whether our runtime is significantly worse, by more than the limit allows."""
        return self.high < 1.0 and self.low <= LEAST


Runs = dict[int, list[tuple[LoadResult, LoadResult]]]
"""Concurrent clients -> pairs of the results of our runtime and of vLLM's server."""


def measure(our_url: str, their_url: str, pairs: int = PAIRS) -> Runs:
    """Run all loads. Both servers run all the time, and the order of the servers alternates from pair to pair."""
    results: Runs = {}
    for clients, requests in LOADS.items():
        both = [(our_url, their_url), (their_url, our_url)]
        for url in both[0]:
            run_load(url, clients, requests)
        results[clients] = []
        for pair in range(pairs):
            run = {url: run_load(url, clients, requests) for url in both[pair % 2]}
            results[clients].append((run[our_url], run[their_url]))
    return results


def compare_all(starts: Sequence[Runs]) -> list[Comparison]:
    """Return every figure at every load over the pairs of all starts."""
    return [
        comparison
        for clients in LOADS
        for comparison in compare(clients, *zip(*(pair for runs in starts for pair in runs[clients]), strict=True))
    ]


def compare(clients: int, ours: Sequence[LoadResult], theirs: Sequence[LoadResult]) -> list[Comparison]:
    """Return every figure. Runs with the same index are a pair."""
    comparisons = []
    for name, (field, factor) in FIGURES.items():
        our, their = ([getattr(run, field) for run in runs] for runs in (ours, theirs))
        better = (our, their) if field == "tokens_per_second" else (their, our)
        interval = ratio_interval([above / below for above, below in zip(*better, strict=True)])
        median, rival = (factor * statistics.median(runs) for runs in (our, their))
        comparisons.append(Comparison(clients, name, median, rival, *interval))
    return comparisons


def ratio_interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of paired ratios, and its 95 % interval by Student's t on their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    reach = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t by Fisher's expansion, within 0.002 from 6 degrees of freedom on."""
    z: float = statistics.NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))


def table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table with one row for each figure and load."""
    title = f"Serving overhead: above 1 our runtime is better; the interval must reach 1.0 or be above {LEAST}"
    shown = Table(title=title, title_justify="left")
    shown.add_column("clients", justify="right")
    shown.add_column("figure")
    for heading in ("ours", "vLLM's server", "ratio", "95 % interval", ""):
        shown.add_column(heading, justify="right")
    for each in comparisons:
        interval = f"{each.low:.3f} - {each.high:.3f}"
        figures = (f"{each.ours:.2f}", f"{each.theirs:.2f}", f"{each.ratio:.3f}", interval)
        shown.add_row(str(each.clients), each.name, *figures, "MISSED" if each.missed else "", end_section=_last(each))
    return shown


def _last(comparison: Comparison) -> bool:
    return comparison.name == list(FIGURES)[-1]
