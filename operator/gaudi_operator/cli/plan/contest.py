"""All strategies judged on the same traffic, optimal beside them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_operator.cli.plan.rivals import rival_plans
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.optimal import prices
from gaudi_runtime.optimal.cost import Cost
from gaudi_runtime.optimal.from_policy import BOTH
from gaudi_runtime.optimal.strategy import Chosen, Optimizer
from gaudi_runtime.traffic.histogram import Traffic
from gaudi_runtime.traffic.judge import Verdict, judge

DIGITS = 4


@dataclass(frozen=True)
class Budget:
    """What strategy optimal may use: graphs per phase, or bytes, or seconds of both phases together."""

    prompt_graphs: int | None = None
    decode_graphs: int | None = None
    graph_bytes: int | None = None
    warmup_seconds: int | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError for more than one kind."""
        kinds = [self.prompt_graphs or self.decode_graphs, self.graph_bytes, self.warmup_seconds]
        if sum(kind is not None for kind in kinds) > 1:
            raise ConfigError("give one kind of budget: graphs, --graph-bytes or --warmup-seconds")


@dataclass(frozen=True)
class Judged:
    """A strategy in one phase: its verdict on the judged traffic; of optimal also what it expected from the learned
    traffic and by how much one graph more would lower the padding there.
    """

    verdict: Verdict
    expected: float | None = None
    next_graph: float | None = None

    def data(self) -> dict[str, Any]:
        """As JSON, without what is unknown beyond the verdict."""
        optional = {"expected": self.expected, "next_graph": self.next_graph}
        known = {name: value for name, value in optional.items() if value is not None}
        return {name: _short(value) for name, value in (asdict(self.verdict) | known).items()}


@dataclass(frozen=True)
class Contest:
    """Strategies by phase, and why a strategy could not take part."""

    judged: dict[Strategy, dict[BucketPhase, Judged]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """As JSON."""
        strategies = {
            strategy.value: {phase.value: each.data() for phase, each in phases.items()}
            for strategy, phases in self.judged.items()
        }
        return {"strategies": strategies, **({"refused": self.refused} if self.refused else {})}

    def rows(self) -> Iterator[Sequence[object]]:
        """As CSV, the header first."""
        yield "strategy", "phase", "graphs", "padding", "coverage", "expected", "next_graph"
        for strategy, phases in self.judged.items():
            for phase, each in phases.items():
                values = (each.verdict.padding, each.verdict.coverage, each.expected, each.next_graph)
                yield strategy.value, phase.value, each.verdict.graphs, *map(_short, values)


def hold(question: PlanQuestion, learned: Traffic, seen: Traffic, budget: Budget, cost: Cost) -> Contest:
    """Judge all strategies on `seen`, padding being a share of `cost`; optimal learns from `learned` alone.

    Raises PlanImpossible for its budget.
    """
    contest = Contest()
    contest.judged[Strategy.OPTIMAL] = _optimal(question, learned, seen, budget, cost)
    for strategy, plan in rival_plans(question.policy, question.limits, question.blocks).items():
        if isinstance(plan, str):
            contest.refused[strategy.value] = plan
        else:
            contest.judged[strategy] = {phase: Judged(judge(plan, phase, seen, cost)) for phase in BOTH}
    return contest


def _optimal(
    question: PlanQuestion, learned: Traffic, seen: Traffic, budget: Budget, cost: Cost
) -> dict[BucketPhase, Judged]:
    optimizer = Optimizer(learned, question.limits, question.blocks, cost)
    chosen = _choose(question, optimizer, budget, learned)
    prompt, decode = (chosen[phase].buckets[phase] if phase in chosen else () for phase in BOTH)
    plan = BucketPlan(prompt, decode)
    return {
        phase: Judged(
            verdict=judge(plan, phase, seen, cost),
            expected=judge(plan, phase, learned, cost).padding,
            next_graph=each.next_gain,
        )
        for phase, each in chosen.items()
    }


def _choose(
    question: PlanQuestion, optimizer: Optimizer, budget: Budget, learned: Traffic
) -> Mapping[BucketPhase, Chosen]:
    phases = tuple(phase for phase in BOTH if learned.of(phase))
    if budget.graph_bytes:
        price = prices.graph_bytes(question.limits.block_size)
        return dict.fromkeys(phases, optimizer.choose(phases, price, budget.graph_bytes, "--graph-bytes"))
    if budget.warmup_seconds:
        together = optimizer.choose(phases, prices.warmup_seconds, budget.warmup_seconds, "--warmup-seconds")
        return dict.fromkeys(phases, together)
    return {phase: _choose_graphs(question, optimizer, budget, phase) for phase in phases}


def _choose_graphs(question: PlanQuestion, optimizer: Optimizer, budget: Budget, phase: BucketPhase) -> Chosen:
    wanted, flag = {
        BucketPhase.PROMPT: (budget.prompt_graphs, "--graphs"),
        BucketPhase.DECODE: (budget.decode_graphs, "--decode-graphs"),
    }[phase]
    graphs = wanted or optimizer.default_graphs(phase)
    return optimizer.choose((phase,), prices.one_graph, graphs, flag)


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)
