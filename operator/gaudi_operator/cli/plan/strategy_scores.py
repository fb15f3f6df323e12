"""The scores of all strategies for the traffic of a trace. Optimal does not learn from the judged traffic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gaudi_operator.cli.plan.comparison import candidate_plans, graphs_unmeasured
from gaudi_operator.cli.plan.output import stdout, table
from gaudi_operator.cli.plan.question import PlanDocument
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.optimal.cost import Cost, Score, graph_bytes, one_graph, score, warmup_seconds
from gaudi_runtime.planning.optimal.fewest_graphs import Rival, fewest
from gaudi_runtime.planning.optimal.optimizer import BOTH, Chosen, Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic

DIGITS = 4


@dataclass(frozen=True)
class Budget:
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


def budget_warnings(question: PlanDocument, budget: Budget) -> tuple[str, ...]:
    """Return a warning if strategy Optimal is scored with a budget in bytes although graph sizes are unknown."""
    if budget.graph_bytes is None or not graphs_unmeasured(question):
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

    verdict: Score
    expected: float | None = None
    next_graph: float | None = None

    def data(self) -> dict[str, Any]:
        """Return the score as JSON without unknown values."""
        optional = {"expected": self.expected, "next_graph": self.next_graph}
        known = {name: value for name, value in optional.items() if value is not None}
        return {name: _short(value) for name, value in (asdict(self.verdict) | known).items()}


@dataclass(frozen=True)
class Comparison:
    """The scores of all strategies by phase, and the reasons why some strategies have no plan."""

    judged: dict[Strategy, dict[BucketPhase, StrategyScore]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        strategies = {
            as_in_spec(strategy): {phase.value: each.data() for phase, each in phases.items()}
            for strategy, phases in self.judged.items()
        }
        return {"strategies": strategies, **({"refused": self.refused} if self.refused else {})}

    def rows(self) -> Iterator[Sequence[object]]:
        """Yield the rows of a CSV, the header first."""
        yield "strategy", "phase", "graphs", "padding", "coverage", "expected", "next_graph"
        for strategy, phases in self.judged.items():
            for phase, each in phases.items():
                values = (each.verdict.padding, each.verdict.coverage, each.expected, each.next_graph)
                yield as_in_spec(strategy), phase.value, each.verdict.graphs, *map(_short, values)

    def show(self) -> None:
        """Print a table with a row per strategy, then the gain of one more graph and the strategies without a plan."""
        rows = []
        for strategy, phases in self.judged.items():
            verdicts = [phases[phase].verdict if phase in phases else None for phase in BucketPhase]
            rows.append((as_in_spec(strategy), *(cell for each in verdicts for cell in verdict_cells(each))))
        numbers = [f"{phase} {title}" for phase in BucketPhase for title in ("graphs", "padding", "covered")]
        console = stdout()
        console.print(table(rows, ("strategy",), numbers, title="padding is padded / real cost: 1.0 is none"))
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
    question: PlanDocument, learned: Traffic, seen: Traffic, budget: Budget, cost: Cost
) -> Comparison:
    """Return the scores of all strategies on the traffic `seen`, with padding counted in `cost`.

    Optimal learns only from `learned`.

    Raises PlanImpossible if Optimal's budget is too small.
    """
    comparison = Comparison()
    comparison.judged[Strategy.OPTIMAL] = _optimal(question, learned, seen, budget, cost)
    for strategy, plan in candidate_plans(question.policy, question.limits, question.blocks).items():
        if isinstance(plan, str):
            comparison.refused[as_in_spec(strategy)] = plan
        else:
            comparison.judged[strategy] = {phase: StrategyScore(score(plan, phase, seen, cost)) for phase in BOTH}
    return comparison


def _optimal(
    question: PlanDocument, learned: Traffic, seen: Traffic, budget: Budget, cost: Cost
) -> dict[BucketPhase, StrategyScore]:
    optimizer = Optimizer(learned, question.limits, question.blocks, cost)
    chosen = _choose(question, optimizer, budget, learned, cost)
    prompt, decode = (chosen[phase].buckets[phase] if phase in chosen else () for phase in BOTH)
    # Put the prompt and the decode buckets into one plan, because the two phases share a budget of bytes or seconds.
    plan = BucketPlan(prompt, decode)
    return {
        phase: StrategyScore(
            verdict=score(plan, phase, seen, cost),
            expected=score(plan, phase, learned, cost).padding,
            next_graph=each.next_gain,
        )
        for phase, each in chosen.items()
    }


def _choose(
    question: PlanDocument, optimizer: Optimizer, budget: Budget, learned: Traffic, cost: Cost
) -> Mapping[BucketPhase, Chosen]:
    phases = tuple(phase for phase in BOTH if learned.shapes_of(phase))
    if budget.graph_bytes:
        price = graph_bytes(question.limits.block_size)
        return dict.fromkeys(phases, optimizer.choose(phases, price, budget.graph_bytes, "--graph-bytes"))
    if budget.warmup_seconds:
        together = optimizer.choose(phases, warmup_seconds, budget.warmup_seconds, "--warmup-seconds")
        return dict.fromkeys(phases, together)
    asked = {
        BucketPhase.PROMPT: (budget.prompt_graphs, "--graphs"),
        BucketPhase.DECODE: (budget.decode_graphs, "--decode-graphs"),
    }
    chosen, exponential = {}, make_plan(BucketPolicy(), question.limits, question.blocks)
    rival = Rival(exponential, question.limits, cost)
    for phase in phases:
        wanted, flag = asked[phase]
        if wanted:
            chosen[phase] = optimizer.choose((phase,), one_graph, wanted, flag)
        else:
            chosen[phase] = fewest(phase, optimizer.kinds(phase), question.blocks, rival)
    return chosen


def verdict_cells(verdict: Score | None) -> tuple[str, str, str]:
    """Return the score of a strategy as cells of a table: graphs, padding and coverage, with "-" for unknown values."""
    if verdict is None:
        return "-", "-", "-"
    padding = "-" if verdict.padding is None else f"{verdict.padding:.3f}"
    coverage = "-" if verdict.coverage is None else f"{verdict.coverage:.1%}"
    return str(verdict.graphs), padding, coverage


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, DIGITS)
