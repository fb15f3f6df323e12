"""`gaudi-plan compare`: a comparison of all strategies (docs/how-to/how-many-graphs.md).

`candidate_plans` makes a plan with every strategy, with the same limits. If a strategy has no possible plan, the output
contains the reason. The output also shows strategy Optimal with other numbers of graphs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_operator.cli.plan.figures import ExpectedTraffic, PlanFigures, expected_traffic, figures_of
from gaudi_operator.cli.plan.output import CommandOutput, build_table, stdout_console
from gaudi_operator.cli.plan.plot import PlotPoint, plot_svg
from gaudi_operator.cli.plan.question import PlanDocument
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.cost import price_in_graphs
from gaudi_runtime.planning.optimal.optimizer import BOTH, Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
from gaudi_runtime.traffic.histogram import Traffic
from gaudi_runtime.units import GIB

OTHER_NUMBERS = {"half": 0.5, "twice": 2.0}
"""The other numbers of graphs that the table shows, as multiples of Optimal's number."""
PLOTTED_SHARES = (0.35, 0.7, 1.4, 3.0, 4.0)
"""The multiples that only the plot shows. The search for each takes one or two seconds on one core."""

PlanOrRefusal = BucketPlan | str


def candidate_plans(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Mapping[Strategy, PlanOrRefusal]:
    """Return the plans to compare, by strategy. If a strategy has no possible plan, the reason replaces the plan.

    Strategy File is included if the policy has a bucket file. Strategies with ranges use the ranges of the policy.
    """
    strategies = [*RANGED_STRATEGIES]
    if policy.file is not None:
        strategies.append(Strategy.FILE)
    return {
        each: _plan_or_refusal(policy.model_copy(update={"strategy": each}), limits, kv_blocks) for each in strategies
    }


def _plan_or_refusal(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> PlanOrRefusal:
    try:
        return make_plan(policy, limits, kv_blocks)
    except PlanImpossible as error:
        return str(error)


def compare_strategies(question: PlanDocument, seen: ExpectedTraffic | None = None) -> CommandOutput:
    """Return the comparison of all strategies: the cost and the benefit of each plan.

    Padding is computed for the traffic `seen`, or else for the traffic of the policy. Optimal learns only from the
    traffic of the policy, not from `seen`.
    """
    known = expected_traffic(question.policy, question.limits, question.blocks)
    judge = _PlanEvaluator(question, known.traffic, seen or known, has_unmeasured_graphs(question))
    plans = dict(candidate_plans(question.policy, question.limits, question.blocks))
    optimal = _plan_or_refusal(
        question.policy.model_copy(update={"strategy": Strategy.OPTIMAL}), question.limits, question.blocks
    )
    plans[Strategy.OPTIMAL] = optimal
    comparison = Comparison(
        strategies={
            spec_spelling(name): judge.figures(plan) for name, plan in plans.items() if not isinstance(plan, str)
        },
        others={} if isinstance(optimal, str) else judge.optimal_figures(optimal, OTHER_NUMBERS),
        refused={spec_spelling(name): plan for name, plan in plans.items() if isinstance(plan, str)},
    )
    warnings = (*question.warnings, judge.judged_on.source, *_estimate_warnings(judge.bytes_unknown))
    return CommandOutput(
        data={**comparison.data(), "warnings": warnings},
        rows=comparison.rows,
        show=comparison.show,
        picture=lambda: _draw_plot(comparison, judge, optimal),
        warnings=warnings,
    )


def _estimate_warnings(bytes_unknown: bool) -> tuple[str, ...]:
    what = "warmup_seconds is an estimate" if bytes_unknown else "graph_bytes and warmup_seconds are estimates"
    return (
        *([UNMEASURED] if bytes_unknown else []),
        f"{what} for all graphs, from the rates that the reference logs have for HPU graphs of Llama 3.1 8B on one "
        "Gaudi 2",
    )


UNMEASURED = (
    "graph_bytes are unknown in TorchCompile until a pod has measured them: published rates are those of HPU graphs"
)


def has_unmeasured_graphs(question: PlanDocument) -> bool:
    """Return True if strategies cannot be compared by graph bytes, because the document's graph sizes are unknown.

    A document that contains only limits has no execution mode. The result is then False.
    """
    # Import the forecast in this function, so that importing this module does not load the forecast.
    from gaudi_runtime.forecast.inputs import inputs_from_config

    return question.config is not None and inputs_from_config(question.config).has_unmeasured_graphs


@dataclass(frozen=True)
class _PlanEvaluator:
    """The evaluation of the plans for one document. Plans are judged on `judged_on`, and Optimal plans for `known`."""

    question: PlanDocument
    known: Traffic
    judged_on: ExpectedTraffic
    bytes_unknown: bool

    def figures(self, plan: BucketPlan) -> PlanFigures:
        """Return the figures of a plan: its cost and its savings."""
        return figures_of(
            plan, self.question.limits, self.question.blocks, self.judged_on, bytes_unknown=self.bytes_unknown
        )

    def optimal_figures(self, plan: BucketPlan, shares: Mapping[str, float]) -> Mapping[str, PlanFigures]:
        """Return the figures of Optimal by name, with each share in `shares` of the graphs of `plan`."""
        return {name: self.figures(self._optimal_plan(plan, share)) for name, share in shares.items()}

    def _optimal_plan(self, plan: BucketPlan, share: float) -> BucketPlan:
        """Return Optimal's plan with `share` times the graphs of `plan`, but at least the minimum for full coverage."""
        policy, limits, blocks = self.question.policy, self.question.limits, self.question.blocks
        optimizer = Optimizer(self.known, limits, blocks)
        least = sum(optimizer.least_price(phase, price_in_graphs) for phase in BOTH)
        graphs = max(round(share * (len(plan.prompt) + len(plan.decode))), least)
        split = optimizer.choose(BOTH, price_in_graphs, graphs, "the number of graphs").buckets
        # Make the plan from a policy with these numbers of graphs. A user who sets the same numbers gets the same
        # buckets.
        settings = OptimalSettings(
            traffic=policy.optimal.traffic if policy.optimal else None,
            prompt_graphs=len(split[BucketPhase.PROMPT]),
            decode_graphs=len(split[BucketPhase.DECODE]),
        )
        return make_plan(policy.model_copy(update={"strategy": Strategy.OPTIMAL, "optimal": settings}), limits, blocks)


@dataclass(frozen=True)
class Comparison:
    """The figures of all strategies, of Optimal with other numbers of graphs, and the reasons for missing plans."""

    strategies: Mapping[str, PlanFigures]
    others: Mapping[str, PlanFigures]
    refused: Mapping[str, str]

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "strategies": {name: _figures_as_dict(each) for name, each in self.strategies.items()},
            "optimal_with": {name: _figures_as_dict(each) for name, each in self.others.items()},
            **({"refused": self.refused} if self.refused else {}),
        }

    def rows(self) -> Sequence[Sequence[object]]:
        """Return the comparison as CSV, the header first."""
        return [
            ("strategy", *FACTS),
            *((name, *_figures_as_dict(each).values()) for name, each in self._figures_by_name().items()),
        ]

    def show(self) -> None:
        """Print the comparison as a table."""
        named = self._figures_by_name()
        # Omit the column "GiB" if no strategy has a value for this column, so that the table fits into 80 characters.
        bytes_known = any(each.graph_bytes is not None for each in named.values())
        columns = (*COLUMNS, "GiB") if bytes_known else COLUMNS
        rows = ((name, *_figure_cells(each)[: len(columns)]) for name, each in named.items())
        console = stdout_console()
        console.print(build_table(rows, ("strategy",), columns, title=TITLE, caption=CAPTION))
        for name, why in self.refused.items():
            console.print(f"{name}: {why}")

    def _figures_by_name(self) -> Mapping[str, PlanFigures]:
        optimal = spec_spelling(Strategy.OPTIMAL)
        return {**self.strategies, **{f"{optimal}, {name}": each for name, each in self.others.items()}}


COLUMNS = ("graphs", "prompt\npadding", "decode\npadding", "covered", "last\nten", "warm-up\nseconds")
TITLE = "estimates; padding: padded / real compute, 1.0 is none"
CAPTION = "last ten: growth of the padded compute without the ten graphs that save least"


FACTS = (
    "prompt_graphs",
    "decode_graphs",
    "graph_bytes",
    "warmup_seconds",
    "prompt_padding",
    "decode_padding",
    "prompt_coverage",
    "decode_coverage",
    "admissible_without_bucket",
    "more_compute_without_last_ten",
)


def _figures_as_dict(figures: PlanFigures) -> dict[str, float | None]:
    """Return the figures by name. The values are rounded, because they are estimates."""
    scores = [figures.scores[phase] for phase in BucketPhase]
    values = (
        *(each.graphs for each in scores),
        figures.graph_bytes,
        figures.warmup_seconds,
        *(_round_or_none(each.padding) for each in scores),
        *(figures.coverage[phase] for phase in BucketPhase),
        figures.missing_count,
        _round_or_none(figures.last_graphs),
    )
    return dict(zip(FACTS, values, strict=True))


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _figure_cells(figures: PlanFigures) -> tuple[str, ...]:
    scores = [figures.scores[phase] for phase in BucketPhase]
    return (
        " + ".join(str(each.graphs) for each in scores),
        *("-" if each.padding is None else f"{each.padding:.3f}" for each in scores),
        format_coverage(min(figures.coverage.values())),
        "-" if figures.last_graphs is None else format_change(figures.last_graphs),
        f"{figures.warmup_seconds:.0f}",
        "-" if figures.graph_bytes is None else f"{figures.graph_bytes / GIB:.1f}",
    )


def format_change(share: float) -> str:
    """Format a relative change for the comparison of strategies, as a percentage with its sign."""
    # Adding 0.0 turns -0.0 into 0.0. Otherwise a change of -0.01 % would be shown as "-0.0 %".
    return f"{round(share * 100, 1) + 0.0:+.1f} %"


def format_coverage(share: float) -> str:
    """Format the coverage of a strategy as a percentage, rounded down, so that only full coverage is 100 %."""
    return f"{int(share * 1000) / 10:.1f} %"


def _draw_plot(comparison: Comparison, judge: _PlanEvaluator, optimal: PlanOrRefusal) -> str:
    more = (
        {}
        if isinstance(optimal, str)
        else judge.optimal_figures(optimal, {str(share): share for share in PLOTTED_SHARES})
    )
    name = spec_spelling(Strategy.OPTIMAL)
    points = {
        f"{each} ({format_coverage(least)} covered)" if (least := min(figures.coverage.values())) < 1 else each: found
        for each, figures in comparison.strategies.items()
        if (found := _plot_point(figures))
    }
    curve = {found for each in (*comparison.others.values(), *more.values()) if (found := _plot_point(each))}
    chosen = {points[name]} if name in points else set()
    return plot_svg(points, sorted(curve | chosen), name)


def _plot_point(figures: PlanFigures) -> PlotPoint | None:
    return None if figures.padding is None else PlotPoint(figures.graphs, figures.padding)
