"""Strategy optimal as a policy asks for it: traffic as text, one kind of budget (docs/traffic.md, In a policy)."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.optimal import prices
from gaudi_runtime.optimal.strategy import Optimizer
from gaudi_runtime.traffic.histogram import read_traffic

Buckets = dict[BucketPhase, tuple[Bucket, ...]]
BOTH = (BucketPhase.PROMPT, BucketPhase.DECODE)


def optimal_buckets(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> tuple[Buckets, list[str]]:
    """Buckets per phase and warnings.

    Raises PlanImpossible that names the setting at fault.
    """
    settings = _settings(policy)
    traffic = read_traffic(settings.traffic)
    optimizer = Optimizer(traffic, limits, kv_blocks)
    warnings = [
        f"bucketing.optimal.traffic: {share:.2%} of the {phase} weight is beyond the limits and was left out"
        for phase in BOTH
        if (share := optimizer.beyond_limits(phase, traffic)) > 0
    ]
    return _within(settings, optimizer, limits), warnings


def _settings(policy: BucketPolicy) -> OptimalSettings:
    settings = policy.optimal
    if settings is None:
        raise PlanImpossible(
            "bucketing.strategy: optimal needs the traffic that it is to pad least; give bucketing.optimal.traffic "
            "(`gaudi-plan trace --save-traffic` makes it from a trace) or choose exponential, linear or paddingAware"
        )
    given = _kinds(settings)
    if len(given) > 1:
        raise PlanImpossible(
            f"bucketing.optimal: {' and '.join(given)} are different kinds of budget; give one of them"
        )
    return settings


def _kinds(settings: OptimalSettings) -> list[str]:
    kinds = {
        "promptGraphs or decodeGraphs": settings.prompt_graphs or settings.decode_graphs,
        "graphBytes": settings.graph_bytes,
        "warmupSeconds": settings.warmup_seconds,
    }
    return [name for name, value in kinds.items() if value]


def _within(settings: OptimalSettings, optimizer: Optimizer, limits: Limits) -> Buckets:
    if settings.graph_bytes:
        price, budget = prices.graph_bytes(limits.block_size), settings.graph_bytes
        return dict(optimizer.choose(BOTH, price, budget, "bucketing.optimal.graphBytes").buckets)
    if settings.warmup_seconds:
        price, budget = prices.warmup_seconds, settings.warmup_seconds
        return dict(optimizer.choose(BOTH, price, budget, "bucketing.optimal.warmupSeconds").buckets)
    return _within_graphs(settings, optimizer)


def _within_graphs(settings: OptimalSettings, optimizer: Optimizer) -> Buckets:
    wanted = {BucketPhase.PROMPT: settings.prompt_graphs, BucketPhase.DECODE: settings.decode_graphs}
    buckets: Buckets = {}
    for phase in BOTH:
        graphs = wanted[phase] or optimizer.default_graphs(phase)
        chosen = optimizer.choose((phase,), prices.one_graph, graphs, f"bucketing.optimal.{phase}Graphs")
        buckets.update(chosen.buckets)
    return buckets
