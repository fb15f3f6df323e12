"""The scores of all strategies for the traffic of a trace. Optimal does not learn from the judged traffic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gaudi_operator.cli.plan.comparison import candidate_plans, has_unmeasured_graphs
from gaudi_operator.cli.plan.output import build_table, stdout_console
from gaudi_operator.cli.plan.question import PlanDocument
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.optimal.cost import (
    Cost,
    PlanScore,
    price_in_bytes,
    price_in_graphs,
    price_in_seconds,
    score_plan,
)
from gaudi_runtime.planning.optimal.fewest_graphs import ReferencePlan, find_fewest_buckets
from gaudi_runtime.planning.optimal.optimizer import BOTH, ChosenBuckets, Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic

DIGITS = 4


@dataclass(frozen=True)
class OptimalBudget:
    """The budget of strategy Optimal: graphs per phase, or bytes or seconds for both phases together.

    In every execution mode, bytes and seconds are computed from the rates of HPU graphs.
    """

    prompt_graphs: int | None = None
    decode_graphs: int | None = None
    graph_bytes: int | None = None
    warmup_seconds: int | None = None

    def __post_init__(self) -> None:
        """Check the budget. Raises ConfigError if more than one kind of limit is set."""
        kinds = [self.prompt_graphs or self.decode_graphs, self.graph_bytes, self.warmup_seconds]
        if sum(kind is not None for kind in kinds) > 1:
            raise ConfigError("give one budget: graphs, --graph-bytes or --warmup-seconds")


def budget_warnings(question: PlanDocument, budget: OptimalBudget) -> tuple[str, ...]:
    """Return a warning if strategy Optimal is scored with a budget in bytes although graph sizes are unknown."""
    if budget.graph_bytes is None or not has_unmeasured_graphs(question):
        return ()
    return (
        "--graph-bytes is counted at the rates of HPU graphs, but the bytes of graphs in TorchCompile are unknown. "
        "Give --graphs and --decode-graphs",
    )


@dataclass(frozen=True)
class StrategyScore:
    """The score of a strategy in one phase on the judged traffic.

    `expected` is the padding on the learned traffic. `next_graph` is the gain of one more graph. Only Optimal has these
    two values.
    """

    verdict: PlanScore
    expected: float | None = None
    next_graph: float | None = None

    def data(self) -> dict[str, Any]:
        """Return the score as JSON without unknown values."""
        optional = {"expected": self.expected, "next_graph": self.next_graph}
        known = {name: value for name, value in optional.items() if value is not None}
        return {name: _round_digits(value) for name, value in (asdict(self.verdict) | known).items()}


@dataclass(frozen=True)
class TrafficComparison:
    """The scores of all strategies by phase, and the reasons why some strategies have no plan."""

    judged: dict[Strategy, dict[BucketPhase, StrategyScore]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        strategies = {
            spec_spelling(strategy): {phase.value: each.data() for phase, each in phases.items()}
            for strategy, phases in self.judged.items()
        }
        return {"strategies": strategies, **({"refused": self.refused} if self.refused else {})}

    def rows(self) -> Iterator[Sequence[object]]:
        """Yield the rows of a CSV, the header first."""
        yield "strategy", "phase", "graphs", "padding", "coverage", "expected", "next_graph"
        for strategy, phases in self.judged.items():
            for phase, each in phases.items():
                values = (each.verdict.padding, each.verdict.coverage, each.expected, each.next_graph)
                yield spec_spelling(strategy), phase.value, each.verdict.graphs, *map(_round_digits, values)

    def show(self) -> None:
        """Print a table with a row per strategy, then the gain of one more graph and the strategies without a plan."""
        rows = []
        for strategy, phases in self.judged.items():
            verdicts = [phases[phase].verdict if phase in phases else None for phase in BucketPhase]
            rows.append((spec_spelling(strategy), *(cell for each in verdicts for cell in score_cells(each))))
        numbers = [f"{phase} {title}" for phase in BucketPhase for title in ("graphs", "padding", "covered")]
        console = stdout_console()
        console.print(build_table(rows, ("strategy",), numbers, title="padding is padded / real cost: 1.0 is none"))
        for phases in self.judged.values():
            for phase, judged in phases.items():
                if judged.next_graph is not None and judged.expected is not None:
                    console.print(
                        f"{phase}: Optimal expected {judged.expected:.3f}; one more graph lowers it by about "
                        f"{judged.next_graph:.4f}"
                    )
        for name, why in self.refused.items():
            console.print(f"{name}: {why}")


def compare_on_traffic(
    question: PlanDocument, learned: Traffic, seen: Traffic, budget: OptimalBudget, cost: Cost
) -> TrafficComparison:
    """Return the scores of all strategies on the traffic `seen`, with padding counted in `cost`.

    Optimal learns only from `learned`.

    Raises PlanImpossible if Optimal's budget is too small.
    """
    comparison = TrafficComparison()
    comparison.judged[Strategy.OPTIMAL] = _score_optimal(question, learned, seen, budget, cost)
    for strategy, plan in candidate_plans(question.policy, question.limits, question.blocks).items():
        if isinstance(plan, str):
            comparison.refused[spec_spelling(strategy)] = plan
        else:
            comparison.judged[strategy] = {phase: StrategyScore(score_plan(plan, phase, seen, cost)) for phase in BOTH}
    return comparison


def _score_optimal(
    question: PlanDocument, learned: Traffic, seen: Traffic, budget: OptimalBudget, cost: Cost
) -> dict[BucketPhase, StrategyScore]:
    optimizer = Optimizer(learned, question.limits, question.blocks, cost)
    chosen = _choose_buckets(question, optimizer, budget, learned, cost)
    prompt, decode = (chosen[phase].buckets[phase] if phase in chosen else () for phase in BOTH)
    # Put the prompt and the decode buckets into one plan, because the two phases share a budget of bytes or seconds.
    plan = BucketPlan(prompt, decode)
    return {
        phase: StrategyScore(
            verdict=score_plan(plan, phase, seen, cost),
            expected=score_plan(plan, phase, learned, cost).padding,
            next_graph=each.next_gain,
        )
        for phase, each in chosen.items()
    }


def _choose_buckets(
    question: PlanDocument, optimizer: Optimizer, budget: OptimalBudget, learned: Traffic, cost: Cost
) -> Mapping[BucketPhase, ChosenBuckets]:
    phases = tuple(phase for phase in BOTH if learned.shapes_of(phase))
    if budget.graph_bytes:
        price = price_in_bytes(question.limits.block_size)
        return dict.fromkeys(phases, optimizer.choose(phases, price, budget.graph_bytes, "--graph-bytes"))
    if budget.warmup_seconds:
        together = optimizer.choose(phases, price_in_seconds, budget.warmup_seconds, "--warmup-seconds")
        return dict.fromkeys(phases, together)
    asked = {
        BucketPhase.PROMPT: (budget.prompt_graphs, "--graphs"),
        BucketPhase.DECODE: (budget.decode_graphs, "--decode-graphs"),
    }
    chosen, exponential = {}, make_plan(BucketPolicy(), question.limits, question.blocks)
    rival = ReferencePlan(exponential, question.limits, cost)
    for phase in phases:
        wanted, flag = asked[phase]
        if wanted:
            chosen[phase] = optimizer.choose((phase,), price_in_graphs, wanted, flag)
        else:
            chosen[phase] = find_fewest_buckets(phase, optimizer.traffic_kinds(phase), question.blocks, rival)
    return chosen


def score_cells(verdict: PlanScore | None) -> tuple[str, str, str]:
    """Return the score of a strategy as cells of a table: graphs, padding and coverage, with "-" for unknown values."""
    if verdict is None:
        return "-", "-", "-"
    padding = "-" if verdict.padding is None else f"{verdict.padding:.3f}"
    coverage = "-" if verdict.coverage is None else f"{verdict.coverage:.1%}"
    return str(verdict.graphs), padding, coverage


def _round_digits(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)
