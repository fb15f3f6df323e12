"""Strategy optimal: traffic and a budget in, buckets out (docs/traffic.md).

Every admissible shape has a bucket, whatever the traffic; the budget decides how many more there are. A policy asks for
it with traffic as text and one kind of budget (docs/traffic.md, In a policy).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.optimal.budget import Fit, fit
from gaudi_runtime.buckets.optimal.cost import Cost, Price, graph_bytes, one_graph, token_cost, warmup_seconds
from gaudi_runtime.buckets.optimal.exchange import Plan, bettered
from gaudi_runtime.buckets.optimal.rows import Both, Choice, Worth, choice_of
from gaudi_runtime.buckets.optimal.space import DecodeSpace, PromptSpace, Space
from gaudi_runtime.buckets.planner import plan_of_ranges
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.traffic.histogram import Traffic, Weights, read_traffic, total


@dataclass(frozen=True)
class Chosen:
    """Buckets of some phases, sorted, and what one more graph would take off the sum of their paddings."""

    buckets: Mapping[BucketPhase, tuple[Bucket, ...]]
    next_gain: float


class Optimizer:
    """Chooses buckets for one traffic under one set of limits.

    `kv_blocks` of the device; `cost` of a batch (tokens when left out).
    """

    def __init__(self, traffic: Traffic, limits: Limits, kv_blocks: int, cost: Cost | None = None) -> None:
        in_parts = limits.max_num_batched_tokens < limits.max_model_len
        self._limits = limits
        self._kv_blocks = kv_blocks
        self._cost = cost or token_cost(limits.block_size)
        self._spaces: dict[BucketPhase, Space] = {
            BucketPhase.PROMPT: PromptSpace(limits, with_context=limits.prefix_caching or in_parts),
            BucketPhase.DECODE: DecodeSpace(limits, kv_blocks),
        }
        self._traffic = {phase: _admissible(space, traffic.of(phase)) for phase, space in self._spaces.items()}

    def choose(self, phases: tuple[BucketPhase, ...], price: Price, budget: float, asked: str) -> Chosen:
        """The buckets of `phases` that pad least within `budget`, in the unit of `price`.

        With several phases the sum of their paddings counts. Raises PlanImpossible for a phase without traffic that
        the limits admit, and, beginning with the setting `asked`, when the budget does not hold even the buckets that
        every plan needs.
        """
        found = fit(Both([self._choice(phase, price) for phase in phases]), budget)
        if found is None:
            raise PlanImpossible(f"{asked}: {budget:g} is too little; {self._least(phases, price)}")
        buckets = _by_phase(found, phases)
        if len(phases) == 1:
            buckets = {phase: self._bettered(phase, price, budget, plan) for phase, plan in buckets.items()}
        return Chosen(buckets, found.next_gain)

    def beyond_limits(self, phase: BucketPhase, traffic: Traffic) -> float:
        """Share of the phase's traffic that the limits do not admit."""
        everything = total(traffic.of(phase))
        return 1 - total(self._traffic[phase]) / everything if everything else 0.0

    def default_graphs(self, phase: BucketPhase) -> int:
        """As many as strategy exponential has, or more where a bucket for everything takes more."""
        exponential = plan_of_ranges(BucketPolicy(strategy=Strategy.EXPONENTIAL), self._limits, self._kv_blocks)
        return max(len(exponential.of(phase)), round(self.least(phase, one_graph)))

    def least(self, phase: BucketPhase, price: Price) -> float:
        """What the buckets take that every admissible shape needs at the very least."""
        return sum(price(phase, corner) for corner in self._spaces[phase].corners())

    def _least(self, phases: tuple[BucketPhase, ...], price: Price) -> str:
        least = sum(self.least(phase, price) for phase in phases)
        return f"a bucket for every admissible {' and '.join(phases)} batch takes {least:g}"

    def _choice(self, phase: BucketPhase, price: Price) -> Choice:
        if not self._traffic[phase]:
            raise PlanImpossible(
                f"the traffic of strategy optimal has no {phase} shape within the limits; "
                "learn from the traffic of this model, or raise the limits"
            )
        return choice_of(self._spaces[phase], self._traffic[phase], self._share(phase), partial(price, phase))

    def _bettered(self, phase: BucketPhase, price: Price, budget: float, plan: Plan) -> Plan:
        space, traffic = self._spaces[phase], self._traffic[phase]
        return bettered(space, traffic, self._share(phase), partial(price, phase), budget, plan)

    def _share(self, phase: BucketPhase) -> Worth:
        """Cost of a batch as a share of the real cost of all the phase's traffic: so paddings of phases add up."""
        real = sum(weight * self._cost(phase, shape) for shape, weight in self._traffic[phase].items())
        return lambda bucket: self._cost(phase, bucket) / real


def _admissible(space: Space, traffic: Weights) -> Weights:
    return {shape: weight for shape, weight in traffic.items() if space.admits(shape)}


def _by_phase(found: Fit, phases: tuple[BucketPhase, ...]) -> dict[BucketPhase, tuple[Bucket, ...]]:
    buckets: dict[BucketPhase, set[Bucket]] = {phase: set() for phase in phases}
    for kept in found.selection.ladders:
        buckets[kept.ladder.phase].update(kept.buckets())
    return {phase: tuple(sorted(each)) for phase, each in buckets.items()}


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
        price, budget = graph_bytes(limits.block_size), settings.graph_bytes
        return dict(optimizer.choose(BOTH, price, budget, "bucketing.optimal.graphBytes").buckets)
    if settings.warmup_seconds:
        price, budget = warmup_seconds, settings.warmup_seconds
        return dict(optimizer.choose(BOTH, price, budget, "bucketing.optimal.warmupSeconds").buckets)
    return _within_graphs(settings, optimizer)


def _within_graphs(settings: OptimalSettings, optimizer: Optimizer) -> Buckets:
    wanted = {BucketPhase.PROMPT: settings.prompt_graphs, BucketPhase.DECODE: settings.decode_graphs}
    buckets: Buckets = {}
    for phase in BOTH:
        graphs = wanted[phase] or optimizer.default_graphs(phase)
        chosen = optimizer.choose((phase,), one_graph, graphs, f"bucketing.optimal.{phase}Graphs")
        buckets.update(chosen.buckets)
    return buckets
