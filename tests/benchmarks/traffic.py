"""Strategies on recorded traffic: the Azure conversation trace, learned from its first half, evaluated on the second.

    python -m tests.benchmarks.traffic

The benchmark also measures how far Optimal is from the best plan, and the time of planning. The exit code is 1 if a
limit is missed.
"""

import sys
import time
from collections.abc import Iterator
from functools import cache

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import price_in_graphs, score_plan_cost
from gaudi_runtime.planning.optimal.optimizer import Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from tests.benchmarks.brute_force import SPACES, gaps
from tests.benchmarks.figures import Figure, table
from tests.support.azure_trace import halves, traffic
from tests.support.token_cost import token_cost

KV_BLOCKS = 3000
TARGETS = {8192: 0.66, 14_080: 0.58, 16_384: 0.52}
"""The maximum padding above 1.0 as a share of exponential's, for prompts with as many graphs."""
RIVALS = (Strategy.EXPONENTIAL, Strategy.LINEAR, Strategy.PADDING_AWARE)


def main() -> int:
    """Print the tables. Return 1 if a limit was missed."""
    figures = [figure for tokens in TARGETS for figure in _contest(tokens)]
    figures += [_gap(name) for name in SPACES]
    figures += [_planning(tokens) for tokens in TARGETS]
    sys.stdout.write(f"\n{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


def _limits(tokens: int) -> Limits:
    return Limits(max_model_len=tokens, max_num_seqs=64, max_num_batched_tokens=tokens)


@cache
def _traffic(tokens: int) -> tuple[Traffic, Traffic]:
    earlier, later = halves()
    return traffic(earlier, _limits(tokens), KV_BLOCKS), traffic(later, _limits(tokens), KV_BLOCKS)


def _contest(tokens: int) -> Iterator[Figure]:
    """Print the table of one size, and yield the figures that have a limit."""
    sys.stdout.write(f"\nmax_num_batched_tokens {tokens}, 64 sequences, {KV_BLOCKS} KV blocks\n")
    sys.stdout.write(f"{'strategy':22}{'prompt graphs':>14}{'padding':>9}{'decode graphs':>15}{'padding':>9}\n")
    plans = {each.value: make_plan(BucketPolicy(strategy=each), _limits(tokens), KV_BLOCKS) for each in RIVALS}
    rival = plans["exponential"]
    plans |= {f"optimal, {part}": _optimal(tokens, rival, share) for part, share in _BUDGETS.items()}
    paddings = {name: _row(name, plan, tokens) for name, plan in plans.items()}
    excess = (paddings["optimal, as many"] - 1) / (paddings["exponential"] - 1)
    yield Figure(f"prompt padding, share of exponential's, T {tokens}", excess, "share", TARGETS[tokens])
    fewer = (paddings["optimal, 3/4 of them"] - 1) / (paddings["exponential"] - 1)
    yield Figure(f"the same with 3/4 of its graphs, T {tokens}", fewer, "share", 1.0)


_BUDGETS = {"as many": 1.0, "3/4 of them": 0.75, "half of them": 0.5}


def _optimal(tokens: int, rival: BucketPlan, share: float) -> BucketPlan:
    optimizer = Optimizer(_traffic(tokens)[0], _limits(tokens), KV_BLOCKS, token_cost(128))
    chosen = []
    for phase in BucketPhase:
        graphs = -(-len(rival.buckets_of(phase)) * share // 1)
        chosen.append(optimizer.choose((phase,), price_in_graphs, graphs, "graphs")[phase])
    return BucketPlan(chosen[0], chosen[1])


def _row(name: str, plan: BucketPlan, tokens: int) -> float:
    """Print a row and return the padding of its prompts."""
    cost = token_cost(_limits(tokens).block_size)
    prompt, decode = (score_plan_cost(plan, phase, _traffic(tokens)[1], cost) for phase in BucketPhase)
    if prompt.padding is None or decode.padding is None or prompt.coverage != 1.0 or decode.coverage != 1.0:
        raise AssertionError(f"{name} leaves traffic without a bucket")
    sys.stdout.write(f"{name:22}{prompt.graphs:14}{prompt.padding:9.4f}{decode.graphs:15}{decode.padding:9.4f}\n")
    return prompt.padding


def _gap(name: str) -> Figure:
    found = gaps(name)
    return Figure(f"cost above the best plan, {name}", 100 * sum(found) / len(found), "%, mean")


def _planning(tokens: int) -> Figure:
    policy = BucketPolicy(
        strategy=Strategy.OPTIMAL, optimal=OptimalSettings(traffic=format_traffic(_traffic(tokens)[0]))
    )
    started = time.process_time()
    make_plan(policy, _limits(tokens), KV_BLOCKS)
    return Figure(f"optimal plan from a policy, T {tokens}", time.process_time() - started, "s", 5)


if __name__ == "__main__":
    sys.exit(main())
