"""Compare the plans of strategy Optimal with Exponential, and with the plans of another revision of the planner.

    python -m tests.benchmarks.optimal_contest
    TRACES=folder/with/csv/files python -m tests.benchmarks.optimal_contest --against REVISION

The first table has plans without traffic and budget, for maxModelLen 8192, 16384 and 32768, with and without contiguous
attention. Plans are judged on traces whose contexts are all near maxModelLen, and on the traces in TRACES and
tests/data. With --against, the second table has budgets of graphs, seconds and bytes for the 8B, 70B and 128k models:
both revisions learn from the earlier half of each trace and are judged on the later half. Another process makes all
plans of a revision. The exit code is 1 if a limit is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import sin
from pathlib import Path
from random import Random
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import score_plan_cost, typical_cost
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from tests.benchmarks.figures import Figure, table
from tests.benchmarks.graph_counts import traces
from tests.support.simulated_batching import Request, read_traffic_of_trace

ROOT = Path(__file__).parents[2]
KV_BLOCKS = 4774
"""The KV blocks of the 8B example."""

NEAR_LOADS = (0.1, 0.3, 1.0, 3.0)
"""The mean requests per second of traces with long contexts."""

MOST_COMPUTE, MOST_PADDING, MOST_SECONDS = 1.03, 1.02, 5.0

MODELS = {
    "8B": Limits(max_model_len=8192, max_num_seqs=128, max_num_batched_tokens=8192, gapless=True),
    "70B": Limits(max_model_len=8192, max_num_seqs=64, max_num_batched_tokens=8192, gapless=True),
    "128k": Limits(
        max_model_len=131_072, max_num_seqs=16, max_num_batched_tokens=8192, prefix_caching=True, gapless=True
    ),
}
BUDGETS: tuple[dict[str, int], ...] = (
    *({"prompt_graphs": graphs, "decode_graphs": graphs} for graphs in (8, 16, 32)),
    {"warmup_seconds": 30},
    {"warmup_seconds": 60},
    {"graph_bytes": 15 * 10**9},
    {"graph_bytes": 25 * 10**9},
)

MAKE_PLANS = """
import json, sys, time
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.planner import make_plan
for line in sys.stdin:
    policy, limits, blocks = json.loads(line)
    start = time.process_time()
    try:
        plan = make_plan(BucketPolicy.model_validate(policy), Limits.model_validate(limits), blocks)
        print(json.dumps([plan.prompt, plan.decode, time.process_time() - start]), flush=True)
    except PlanImpossible:
        print("null", flush=True)
"""


@dataclass(frozen=True)
class TimedPlan:
    """A plan and the processor time of making it."""

    plan: BucketPlan
    seconds: float


class Planner:
    """A planner in another process, from this tree or from the `runtime/` of another tree."""

    def __init__(self, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", MAKE_PLANS],
            env={**os.environ, "PYTHONPATH": str(tree / "runtime")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def make_plan(self, policy: BucketPolicy, limits: Limits) -> TimedPlan | None:
        """Return the plan of a policy, or None if it is impossible."""
        document = [policy.model_dump(mode="json", by_alias=True), limits.model_dump(mode="json", by_alias=True)]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([*document, KV_BLOCKS]) + "\n")
        self._process.stdin.flush()
        answer: list[Any] | None = json.loads(self._process.stdout.readline())
        if answer is None:
            return None
        prompt, decode, seconds = answer
        buckets = (tuple(Bucket(*bucket) for bucket in phase) for phase in (prompt, decode))
        return TimedPlan(BucketPlan(*buckets), seconds)


def main() -> int:
    """Print both tables. Return 1 if a limit was missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", metavar="REVISION")
    against = parser.parse_args().against
    planner = Planner(ROOT)
    missed = _print(_compare_with_exponential(planner))
    if against:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", against, "runtime"], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            missed |= _print(_compare_revisions(planner, Planner(Path(folder))))
    return int(missed)


def _print(figures: Iterator[Figure]) -> bool:
    """Print each figure as soon as it is known. Return True if a limit was missed."""
    missed = False
    for figure in figures:
        sys.stdout.write(f"{table([figure])}{'  MISSED' if figure.missed else ''}\n")
        sys.stdout.flush()
        missed |= figure.missed
    return missed


def trace_near_limit(max_model_len: int, load: float, seed: int = 7, requests: int = 1000) -> list[Request]:
    """Return requests whose prompts fill 80 to 97 % of maxModelLen, in waves of different loads."""
    random, arrival, found = Random(seed), 0.0, list[Request]()  # noqa: S311
    for number in range(requests):
        prompt = int(max_model_len * random.uniform(0.8, 0.97))
        answer = min(max_model_len - prompt - 1, int(random.expovariate(1 / (0.06 * max_model_len))) + 1)
        arrival += random.expovariate(load * (1.1 + 0.9 * sin(number / 100)))
        found.append(Request(arrival, prompt, answer))
    return found


def _compare_with_exponential(planner: Planner) -> Iterator[Figure]:
    for length in (8192, 16_384, 32_768):
        limits = MODELS["8B"].model_copy(update={"max_model_len": length, "max_num_batched_tokens": length})
        requests = {f"near the limit, {load}/s": trace_near_limit(length, load) for load in NEAR_LOADS}
        requests |= {
            f"{trace} x{rate}": [request._replace(arrival=request.arrival / rate) for request in recorded]
            for trace, recorded in traces().items()
            for rate in (1, 3)
        }
        loads = {name: read_traffic_of_trace(trace, limits, KV_BLOCKS) for name, trace in requests.items()}
        for contiguous in (False, True):
            yield from _judge_default(
                planner, limits.model_copy(update={"contiguous_paged_attention": contiguous}), loads
            )


def _judge_default(planner: Planner, limits: Limits, loads: dict[str, Traffic]) -> Iterator[Figure]:
    optimal = _required(planner, BucketPolicy(strategy=Strategy.OPTIMAL), limits)
    rival = _required(planner, BucketPolicy(strategy=Strategy.EXPONENTIAL), limits)
    name = f"{limits.max_model_len}, {_attention(limits)}"
    counts = [len(made.plan.prompt) + len(made.plan.decode) for made in (optimal, rival)]
    yield Figure(f"{name}: graphs", counts[0], f"of {counts[1]}", counts[1])
    yield Figure(f"{name}: processor time", optimal.seconds, "s", MOST_SECONDS)
    for trace, traffic in loads.items():
        ours, theirs = (_padding(made.plan, BucketPhase.DECODE, traffic, limits) for made in (optimal, rival))
        yield Figure(f"{name}, {trace}: decode compute", ours / theirs, "of Exponent.", MOST_COMPUTE)


def _compare_revisions(planner: Planner, rival: Planner) -> Iterator[Figure]:
    ratios: list[float] = []
    for model, (trace, requests) in product(MODELS, traces().items()):
        earlier, later = _halves(requests, MODELS[model])
        for contiguous, budget in product((False, True), BUDGETS):
            limits = MODELS[model].model_copy(update={"contiguous_paged_attention": contiguous})
            settings = OptimalSettings(traffic=format_traffic(earlier), **budget)
            policy = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings)
            ours, theirs = planner.make_plan(policy, limits), rival.make_plan(policy, limits)
            name = f"{model}, {_attention(limits)}, {trace}, {json.dumps(budget)}"
            if ours is None or theirs is None:
                yield Figure(f"{name}: impossible", float(ours is None), "", float(theirs is None))
                continue
            paddings = [
                sum(_padding(made.plan, phase, later, limits) for phase in BucketPhase) for made in (ours, theirs)
            ]
            ratios.append(paddings[0] / paddings[1])
            yield Figure(f"{name}: padded compute", ratios[-1], f"{theirs.seconds:.1f} s", MOST_PADDING)
            yield Figure(f"{name}: processor time", ours.seconds, "s", MOST_SECONDS)
    for model, contiguous in product(MODELS, (False, True)):
        limits = MODELS[model].model_copy(update={"contiguous_paged_attention": contiguous})
        made = [_required(each, BucketPolicy(strategy=Strategy.OPTIMAL), limits) for each in (planner, rival)]
        graphs = [len(each.plan.prompt) + len(each.plan.decode) for each in made]
        yield Figure(f"{model}, {_attention(limits)}, no budget: graphs", graphs[0], "graphs", graphs[1])
        yield Figure(f"{model}, {_attention(limits)}, no budget: processor time", made[0].seconds, "s", MOST_SECONDS)
    yield Figure("mean padded compute of all budgets", sum(ratios) / len(ratios), "", 1.0)


def _required(planner: Planner, policy: BucketPolicy, limits: Limits) -> TimedPlan:
    made = planner.make_plan(policy, limits)
    assert made is not None
    return made


def _attention(limits: Limits) -> str:
    return "contiguous" if limits.contiguous_paged_attention else "paged"


def _halves(requests: list[Request], limits: Limits) -> tuple[Traffic, Traffic]:
    # A trace does not record which prompts share a prefix, so prompts have no context.
    limits = limits.model_copy(update={"prefix_caching": False})
    middle = len(requests) // 2
    halves = [read_traffic_of_trace(half, limits, KV_BLOCKS) for half in (requests[:middle], requests[middle:])]
    return halves[0], halves[1]


def _padding(plan: BucketPlan, phase: BucketPhase, traffic: Traffic, limits: Limits) -> float:
    """Return the padded compute as a multiple of the real compute. Every batch must have a bucket."""
    score = score_plan_cost(plan, phase, traffic, typical_cost(limits.block_size))
    if score.padding is None or score.coverage != 1.0:
        raise AssertionError(f"{phase}: coverage is {score.coverage}")
    return score.padding


if __name__ == "__main__":
    sys.exit(main())
