"""Compare the padding of a canary with the forecast of its learned plan, after enough prompts for a verdict.

    python -m tests.benchmarks.learned_canary
    TRACES=folder/with/csv/files python -m tests.benchmarks.learned_canary

The model is the 8B example. A plan is learned from the earlier half of a trace. Each group of 200 prompts of the later
half is the traffic of one canary, which receives all, half or a quarter of the load. The exit code is 1 if a canary
would be rolled back.
"""

import sys
from collections.abc import Iterator

from gaudi_operator.api.v1alpha1.rollout import Canary
from gaudi_operator.cli.plan.document import PlanDocument, parse_document, read_plan_document
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, OptimalSettings, Strategy
from gaudi_runtime.contract.report import FEWEST_PROMPTS, BucketPhase
from gaudi_runtime.planning.optimal.strategy import forecast_strategy_padding
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from tests.benchmarks.figures import Figure, table
from tests.benchmarks.graph_counts import EXAMPLES, MODELS, RATES, traces
from tests.support.simulated_batching import Request, read_traffic_of_trace

SHARES = (1, 2, 4)
MOST = 1 + Canary().max_padding_percent / 100


def main() -> int:
    """Print the table. Return 1 if a canary of the learned plan would be rolled back."""
    question = read_plan_document(parse_document((EXAMPLES / MODELS["8B"]).read_text()))
    figures = [
        figure
        for name, requests in traces().items()
        for rate in RATES
        for figure in _figures(question, f"{name} x{rate}", _faster(requests, rate))
    ]
    sys.stdout.write(f"padding of the worst canary, as a multiple of its forecast\n{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


def _faster(requests: list[Request], rate: int) -> list[Request]:
    return [each._replace(arrival=each.arrival / rate) for each in requests]


def _figures(question: PlanDocument, name: str, requests: list[Request]) -> Iterator[Figure]:
    middle = len(requests) // 2
    settings = OptimalSettings(traffic=format_traffic(_traffic(question, requests[:middle])))
    policy = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings)
    plan = make_plan(policy, question.limits, question.blocks)
    for share in SHARES:
        mine = requests[middle::share]
        ends = range(FEWEST_PROMPTS, len(mine) + 1, FEWEST_PROMPTS)
        canaries = [_traffic(question, mine[end - FEWEST_PROMPTS : end]) for end in ends]
        for phase in BucketPhase:
            worst = max(_excess(question, policy, plan, phase, met) for met in canaries)
            yield Figure(f"{name}, 1/{share} of the load, {len(canaries)} canaries, {phase}", worst, "", MOST)


def _traffic(question: PlanDocument, requests: list[Request]) -> Traffic:
    # A trace does not record which prompts share a prefix, so prefix caching is off. Prompts are not split.
    limits = question.limits.model_copy(update={"prefix_caching": False, "splits_prompts": None})
    return read_traffic_of_trace(requests, limits, question.blocks)


def _excess(question: PlanDocument, policy: BucketPolicy, plan: BucketPlan, phase: BucketPhase, met: Traffic) -> float:
    """Return the observed padding divided by the forecast."""
    padding = forecast_strategy_padding(policy, question.limits, plan)[phase]
    for shape, batches in met.shapes_of(phase).items():
        bucket = plan.find(phase, *shape)
        if bucket is None:
            raise AssertionError(f"a plan of strategy Optimal has no bucket for {phase} {tuple(shape)}")
        padding.count_batches(phase, shape, bucket, int(batches))
    return (padding.observed or 0.0) / padding.forecast


if __name__ == "__main__":
    sys.exit(main())
