"""The scores of all strategies for the traffic of a trace. Optimal does not learn from the judged traffic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gaudi_operator.cli.plan.comparison import candidate_plans, has_unmeasured_graphs
from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.output import build_table, stdout_console
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
        budgets = [self.prompt_graphs or self.decode_graphs, self.graph_bytes, self.warmup_seconds]
        if sum(budget is not None for budget in budgets) > 1:
            raise ConfigError("give one budget: graphs, --graph-bytes or --warmup-seconds")


def budget_warnings(document: PlanDocument, budget: OptimalBudget) -> tuple[str, ...]:
    """Return a warning if strategy Optimal is scored with a budget in bytes although graph sizes are unknown."""
    if budget.graph_bytes is None or not has_unmeasured_graphs(document):
        return ()
    return (
        "--graph-bytes is counted at the rates of HPU graphs, but the bytes of graphs in TorchCompile are unknown. "
        "Give --graphs and --decode-graphs",
    )


@dataclass(frozen=True)
class StrategyScore:
    """The score of a strategy in one phase on the judged traffic.

    `expected_padding` is the padding on the learned traffic. `next_graph_gain` is the gain of one more graph. Only
    Optimal has these two values.
    """

    plan_score: PlanScore
    expected_padding: float | None = None
    next_graph_gain: float | None = None

    def data(self) -> dict[str, Any]:
        """Return the score as JSON without unknown values."""
        optimal_values = {"expected": self.expected_padding, "next_graph": self.next_graph_gain}
        known_values = {name: value for name, value in optimal_values.items() if value is not None}
        return {name: _round_digits(value) for name, value in (asdict(self.plan_score) | known_values).items()}


@dataclass(frozen=True)
class TrafficComparison:
    """The scores of all strategies by phase, and the reasons why some strategies have no plan."""

    scores: dict[Strategy, dict[BucketPhase, StrategyScore]] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        strategies = {
            spec_spelling(strategy): {phase.value: score.data() for phase, score in phase_scores.items()}
            for strategy, phase_scores in self.scores.items()
        }
        return {"strategies": strategies, **({"refused": self.refusals} if self.refusals else {})}

    def rows(self) -> Iterator[Sequence[object]]:
        """Yield the rows of a CSV, the header first."""
        yield "strategy", "phase", "graphs", "padding", "coverage", "expected", "next_graph"
        for strategy, phase_scores in self.scores.items():
            for phase, score in phase_scores.items():
                plan_score = score.plan_score
                figures = (plan_score.padding, plan_score.coverage, score.expected_padding, score.next_graph_gain)
                yield spec_spelling(strategy), phase.value, plan_score.graphs, *map(_round_digits, figures)

    def show(self) -> None:
        """Print a table with a row per strategy, then the gain of one more graph and the strategies without a plan."""
        rows = []
        for strategy, phase_scores in self.scores.items():
            plan_scores = [phase_scores[phase].plan_score if phase in phase_scores else None for phase in BucketPhase]
            rows.append((spec_spelling(strategy), *(cell for score in plan_scores for cell in score_cells(score))))
        numbers = [f"{phase} {title}" for phase in BucketPhase for title in ("graphs", "padding", "covered")]
        console = stdout_console()
        console.print(build_table(rows, ("strategy",), numbers, title="padding is padded / real cost: 1.0 is none"))
        for phase_scores in self.scores.values():
            for phase, score in phase_scores.items():
                if score.next_graph_gain is not None and score.expected_padding is not None:
                    console.print(
                        f"{phase}: Optimal expected {score.expected_padding:.3f}; one more graph lowers it by about "
                        f"{score.next_graph_gain:.4f}"
                    )
        for name, reason in self.refusals.items():
            console.print(f"{name}: {reason}")


def compare_on_traffic(
    document: PlanDocument, learned_traffic: Traffic, judged_traffic: Traffic, budget: OptimalBudget, cost: Cost
) -> TrafficComparison:
    """Return the scores of all strategies on `judged_traffic`, with padding counted in `cost`.

    Optimal learns only from `learned_traffic`.

    Raises PlanImpossible if Optimal's budget is too small.
    """
    comparison = TrafficComparison()
    comparison.scores[Strategy.OPTIMAL] = _score_optimal(document, learned_traffic, judged_traffic, budget, cost)
    for strategy, plan in candidate_plans(document.policy, document.limits, document.blocks).items():
        if isinstance(plan, str):
            comparison.refusals[spec_spelling(strategy)] = plan
        else:
            comparison.scores[strategy] = {
                phase: StrategyScore(score_plan(plan, phase, judged_traffic, cost)) for phase in BOTH
            }
    return comparison


def _score_optimal(
    document: PlanDocument, learned_traffic: Traffic, judged_traffic: Traffic, budget: OptimalBudget, cost: Cost
) -> dict[BucketPhase, StrategyScore]:
    optimizer = Optimizer(learned_traffic, document.limits, document.blocks, cost)
    choices = _choose_buckets(document, optimizer, budget, learned_traffic, cost)
    prompt_buckets, decode_buckets = (choices[phase].buckets[phase] if phase in choices else () for phase in BOTH)
    # Put the prompt and the decode buckets into one plan, because the two phases share a budget of bytes or seconds.
    plan = BucketPlan(prompt_buckets, decode_buckets)
    return {
        phase: StrategyScore(
            plan_score=score_plan(plan, phase, judged_traffic, cost),
            expected_padding=score_plan(plan, phase, learned_traffic, cost).padding,
            next_graph_gain=choice.next_gain,
        )
        for phase, choice in choices.items()
    }


def _choose_buckets(
    document: PlanDocument, optimizer: Optimizer, budget: OptimalBudget, learned_traffic: Traffic, cost: Cost
) -> Mapping[BucketPhase, ChosenBuckets]:
    phases = tuple(phase for phase in BOTH if learned_traffic.shapes_of(phase))
    if budget.graph_bytes:
        price = price_in_bytes(document.limits.block_size)
        return dict.fromkeys(phases, optimizer.choose(phases, price, budget.graph_bytes, "--graph-bytes"))
    if budget.warmup_seconds:
        choice = optimizer.choose(phases, price_in_seconds, budget.warmup_seconds, "--warmup-seconds")
        return dict.fromkeys(phases, choice)
    graph_budgets = {
        BucketPhase.PROMPT: (budget.prompt_graphs, "--graphs"),
        BucketPhase.DECODE: (budget.decode_graphs, "--decode-graphs"),
    }
    choices, exponential_plan = {}, make_plan(BucketPolicy(), document.limits, document.blocks)
    reference = ReferencePlan(exponential_plan, document.limits, cost)
    for phase in phases:
        max_graphs, flag = graph_budgets[phase]
        if max_graphs:
            choices[phase] = optimizer.choose((phase,), price_in_graphs, max_graphs, flag)
        else:
            choices[phase] = find_fewest_buckets(phase, optimizer.traffic_kinds(phase), document.blocks, reference)
    return choices


def score_cells(score: PlanScore | None) -> tuple[str, str, str]:
    """Return the score of a strategy as cells of a table: graphs, padding and coverage, with "-" for unknown values."""
    if score is None:
        return "-", "-", "-"
    padding = "-" if score.padding is None else f"{score.padding:.3f}"
    coverage = "-" if score.coverage is None else f"{score.coverage:.1%}"
    return str(score.graphs), padding, coverage


def _round_digits(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)
