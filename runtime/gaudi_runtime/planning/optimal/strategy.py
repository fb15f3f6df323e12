"""Strategy `Optimal`: returns the buckets for traffic and a budget (docs/internals/optimal.md).

Every admissible shape has a bucket for any traffic; the budget determines the number of additional buckets. Without
traffic, the prior is used (prior.py). Without a budget, the plan has the fewest graphs that pad the traffic no more
than strategy `Exponential` (fewest_graphs.py).
"""

from collections.abc import Callable
from functools import cache

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.cost import (
    Price,
    price_in_bytes,
    price_in_graphs,
    price_in_seconds,
    score_plan_cost,
    typical_cost,
)
from gaudi_runtime.planning.optimal.fewest_graphs import FewestGraphsReference, find_fewest_buckets
from gaudi_runtime.planning.optimal.optimizer import BOTH, Optimizer
from gaudi_runtime.planning.optimal.prior import prior_kinds, prior_traffic, sum_prior_traffic
from gaudi_runtime.planning.optimal.search import Buckets
from gaudi_runtime.traffic.histogram import Traffic, Weights, parse_traffic
from gaudi_runtime.traffic.padding import Padding, padding_size_class

PhaseBuckets = dict[BucketPhase, Buckets]


def optimal_strategy_buckets(
    policy: BucketPolicy, limits: Limits, kv_blocks: int, make_exponential: Callable[[], BucketPlan]
) -> tuple[PhaseBuckets, list[str]]:
    """Return the buckets of strategy `Optimal` by phase, and warnings.

    `make_exponential` makes the plan of strategy `Exponential`. It is called at most once, and only if a phase has no
    budget. Raises PlanImpossible that names the wrong setting.
    """
    settings = policy.optimal or OptimalSettings()
    _check_budget(settings)
    cost = typical_cost(limits.block_size)
    traffic = (
        Traffic(*(sum_prior_traffic(prior_traffic(phase, limits, kv_blocks, cost)) for phase in BOTH))
        if settings.traffic is None
        else parse_traffic(settings.traffic)
    )
    optimizer = Optimizer(traffic, limits, kv_blocks)
    warnings = [
        f"bucketing.optimal.traffic: {share:.2%} of the {phase} weight exceeds the limits and was ignored"
        for phase in BOTH
        if (share := optimizer.share_beyond_limits(phase, traffic)) > 0
    ]
    for name, budget, price in _shared_budgets(settings, limits):
        if budget:
            return optimizer.choose(BOTH, price, budget, f"bucketing.optimal.{name}"), warnings
    buckets: PhaseBuckets = {}
    make_reference = cache(lambda: FewestGraphsReference(make_exponential(), limits, cost))
    for phase, graphs in _graph_budgets(settings):
        if graphs:
            buckets |= optimizer.choose((phase,), price_in_graphs, graphs, f"bucketing.optimal.{phase}Graphs")
        else:
            kinds = (
                prior_kinds(phase, limits, kv_blocks, cost)
                if settings.traffic is None
                else optimizer.traffic_kinds(phase)
            )
            buckets[phase] = find_fewest_buckets(phase, kinds, kv_blocks, make_reference())
    return buckets, warnings


def check_optimal_strategy(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> None:
    """Check the traffic and the budget of strategy `Optimal` without a search for buckets. Raises PlanImpossible."""
    settings = policy.optimal or OptimalSettings()
    _check_budget(settings)
    traffic = Traffic({}, {}) if settings.traffic is None else parse_traffic(settings.traffic)
    optimizer = Optimizer(traffic, limits, kv_blocks)
    for phase in BOTH:
        if settings.traffic is not None:
            optimizer.check_traffic(phase)
    for name, budget, price in _shared_budgets(settings, limits):
        if budget:
            optimizer.check_budget(BOTH, price, budget, f"bucketing.optimal.{name}")
    for phase, graphs in _graph_budgets(settings):
        if graphs:
            optimizer.check_budget((phase,), price_in_graphs, graphs, f"bucketing.optimal.{phase}Graphs")


def _graph_budgets(settings: OptimalSettings) -> tuple[tuple[BucketPhase, int | None], ...]:
    return ((BucketPhase.PROMPT, settings.prompt_graphs), (BucketPhase.DECODE, settings.decode_graphs))


def _check_budget(settings: OptimalSettings) -> None:
    budgets = {
        "promptGraphs or decodeGraphs": settings.prompt_graphs or settings.decode_graphs,
        "graphMemory": settings.graph_bytes,
        "warmupSeconds": settings.warmup_seconds,
    }
    budget_names = [name for name, budget in budgets.items() if budget]
    if len(budget_names) > 1:
        raise PlanImpossible(
            f"{' and '.join(budget_names)} are different kinds of budget. Set only one kind", "bucketing.optimal"
        )


def _shared_budgets(settings: OptimalSettings, limits: Limits) -> tuple[tuple[str, int | None, Price], ...]:
    """Return the budgets that both phases share, each with its name, its amount, and the price function in its unit."""
    return (
        ("graphMemory", settings.graph_bytes, price_in_bytes(limits.block_size)),
        ("warmupSeconds", settings.warmup_seconds, price_in_seconds),
    )


def forecast_strategy_padding(policy: BucketPolicy, limits: Limits, plan: BucketPlan) -> dict[BucketPhase, Padding]:
    """Return the padding by phase that strategy `Optimal` forecasts; empty if the plan was not learned from traffic."""
    if policy.strategy is not Strategy.OPTIMAL or policy.optimal is None or policy.optimal.traffic is None:
        return {}
    traffic, cost = parse_traffic(policy.optimal.traffic), typical_cost(limits.block_size)

    def forecast(phase: BucketPhase, shapes: Weights) -> float | None:
        return score_plan_cost(plan, phase, Traffic(shapes, shapes), cost).padding

    paddings = {}
    for phase in BOTH:
        shapes = traffic.shapes_of(phase)
        by_size = {
            size: forecast(phase, {shape: shapes[shape] for shape in shapes if padding_size_class(shape) == size})
            for size in set(map(padding_size_class, shapes))
        }
        if overall := forecast(phase, shapes):
            paddings[phase] = Padding(cost, {size: padding for size, padding in by_size.items() if padding}, overall)
    return paddings
