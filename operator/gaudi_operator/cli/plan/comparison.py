"""`gaudi-plan compare`: a comparison of all strategies (docs/how-to/how-many-graphs.md).

`candidate_plans` makes a plan with every strategy, with the same limits. If a strategy has no possible plan, the output
contains the reason. The output also shows strategy Optimal with other numbers of graphs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.figures import ExpectedTraffic, PlanFigures, expected_traffic, figures_of
from gaudi_operator.cli.plan.output import CommandOutput, build_table, stdout_console
from gaudi_operator.cli.plan.plot import PlotPoint, plot_svg
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.cost import price_in_graphs
from gaudi_runtime.planning.optimal.optimizer import BOTH, Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
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
        strategy: _plan_or_refusal(policy.model_copy(update={"strategy": strategy}), limits, kv_blocks)
        for strategy in strategies
    }


def _plan_or_refusal(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> PlanOrRefusal:
    try:
        return make_plan(policy, limits, kv_blocks)
    except PlanImpossible as error:
        return str(error)


def compare_strategies(document: PlanDocument) -> CommandOutput:
    """Return the comparison of all strategies: the cost and the benefit of each plan.

    Padding is computed for the traffic of the policy.
    """
    traffic = expected_traffic(document.policy, document.limits, document.blocks)
    evaluator = _PlanEvaluator(document, traffic, has_unmeasured_graphs(document))
    plans = dict(candidate_plans(document.policy, document.limits, document.blocks))
    optimal = _plan_or_refusal(
        document.policy.model_copy(update={"strategy": Strategy.OPTIMAL}), document.limits, document.blocks
    )
    plans[Strategy.OPTIMAL] = optimal
    comparison = Comparison(
        strategies={
            spec_spelling(name): evaluator.figures(plan) for name, plan in plans.items() if not isinstance(plan, str)
        },
        optimal_variants={} if isinstance(optimal, str) else evaluator.optimal_figures(optimal, OTHER_NUMBERS),
        refusals={spec_spelling(name): plan for name, plan in plans.items() if isinstance(plan, str)},
    )
    warnings = (*document.warnings, traffic.source, *_estimate_warnings(evaluator.bytes_unknown))
    return CommandOutput(
        data={**comparison.data(), "warnings": warnings},
        rows=comparison.rows,
        show=comparison.show,
        picture=lambda: _draw_plot(comparison, evaluator, optimal),
        warnings=warnings,
    )


def _estimate_warnings(bytes_unknown: bool) -> tuple[str, ...]:
    subject = "warmup_seconds is an estimate" if bytes_unknown else "graph_bytes and warmup_seconds are estimates"
    return (
        *([UNMEASURED] if bytes_unknown else []),
        f"{subject} for all graphs, from the rates that the reference logs have for HPU graphs of Llama 3.1 8B on one "
        "Gaudi 2",
    )


UNMEASURED = (
    "graph_bytes are unknown in TorchCompile until a pod has measured them: published rates are those of HPU graphs"
)


def has_unmeasured_graphs(document: PlanDocument) -> bool:
    """Return True if strategies cannot be compared by graph bytes, because the document's graph sizes are unknown.

    A document that contains only limits has no execution mode. The result is then False.
    """
    # Import the forecast in this function, so that importing this module does not load the forecast.
    from gaudi_runtime.forecast.inputs import inputs_from_config

    return document.config is not None and inputs_from_config(document.config).has_unmeasured_graphs


@dataclass(frozen=True)
class _PlanEvaluator:
    """The evaluation of the plans for one document on the expected traffic, from which Optimal learns."""

    document: PlanDocument
    traffic: ExpectedTraffic
    bytes_unknown: bool

    def figures(self, plan: BucketPlan) -> PlanFigures:
        """Return the figures of a plan: its cost and its savings."""
        return figures_of(
            plan, self.document.limits, self.document.blocks, self.traffic, bytes_unknown=self.bytes_unknown
        )

    def optimal_figures(self, plan: BucketPlan, shares: Mapping[str, float]) -> Mapping[str, PlanFigures]:
        """Return the figures of Optimal by name, with each share in `shares` of the graphs of `plan`."""
        return {name: self.figures(self._optimal_plan(plan, share)) for name, share in shares.items()}

    def _optimal_plan(self, plan: BucketPlan, share: float) -> BucketPlan:
        """Return Optimal's plan with `share` times the graphs of `plan`, but at least the minimum for full coverage."""
        policy, limits, blocks = self.document.policy, self.document.limits, self.document.blocks
        optimizer = Optimizer(self.traffic.traffic, limits, blocks)
        min_graphs = sum(optimizer.least_price(phase, price_in_graphs) for phase in BOTH)
        graph_count = max(round(share * (len(plan.prompt) + len(plan.decode))), min_graphs)
        buckets_by_phase = optimizer.choose(BOTH, price_in_graphs, graph_count, "the number of graphs").buckets
        # Make the plan from a policy with these numbers of graphs. A user who sets the same numbers gets the same
        # buckets.
        settings = OptimalSettings(
            traffic=policy.optimal.traffic if policy.optimal else None,
            prompt_graphs=len(buckets_by_phase[BucketPhase.PROMPT]),
            decode_graphs=len(buckets_by_phase[BucketPhase.DECODE]),
        )
        return make_plan(policy.model_copy(update={"strategy": Strategy.OPTIMAL, "optimal": settings}), limits, blocks)


@dataclass(frozen=True)
class Comparison:
    """The figures of all strategies, of Optimal with other numbers of graphs, and the reasons for missing plans."""

    strategies: Mapping[str, PlanFigures]
    optimal_variants: Mapping[str, PlanFigures]
    refusals: Mapping[str, str]

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "strategies": {name: _figures_as_dict(figures) for name, figures in self.strategies.items()},
            "optimal_with": {name: _figures_as_dict(figures) for name, figures in self.optimal_variants.items()},
            **({"refused": self.refusals} if self.refusals else {}),
        }

    def rows(self) -> Sequence[Sequence[object]]:
        """Return the comparison as CSV, the header first."""
        return [
            ("strategy", *FACTS),
            *((name, *_figures_as_dict(figures).values()) for name, figures in self._figures_by_name().items()),
        ]

    def show(self) -> None:
        """Print the comparison as a table."""
        figures_by_name = self._figures_by_name()
        # Omit the column "GiB" if no strategy has a value for this column, so that the table fits into 80 characters.
        bytes_known = any(figures.graph_bytes is not None for figures in figures_by_name.values())
        columns = (*COLUMNS, "GiB") if bytes_known else COLUMNS
        rows = ((name, *_figure_cells(figures)[: len(columns)]) for name, figures in figures_by_name.items())
        console = stdout_console()
        console.print(build_table(rows, ("strategy",), columns, title=TITLE, caption=CAPTION))
        for name, reason in self.refusals.items():
            console.print(f"{name}: {reason}")

    def _figures_by_name(self) -> Mapping[str, PlanFigures]:
        optimal = spec_spelling(Strategy.OPTIMAL)
        return {**self.strategies, **{f"{optimal}, {name}": figures for name, figures in self.optimal_variants.items()}}


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
        *(score.graphs for score in scores),
        figures.graph_bytes,
        figures.warmup_seconds,
        *(_round_or_none(score.padding) for score in scores),
        *(figures.coverage[phase] for phase in BucketPhase),
        figures.missing_count,
        _round_or_none(figures.last_graphs_increase),
    )
    return dict(zip(FACTS, values, strict=True))


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _figure_cells(figures: PlanFigures) -> tuple[str, ...]:
    scores = [figures.scores[phase] for phase in BucketPhase]
    return (
        " + ".join(str(score.graphs) for score in scores),
        *("-" if score.padding is None else f"{score.padding:.3f}" for score in scores),
        format_coverage(min(figures.coverage.values())),
        "-" if figures.last_graphs_increase is None else format_change(figures.last_graphs_increase),
        f"{figures.warmup_seconds:.0f}",
        "-" if figures.graph_bytes is None else f"{figures.graph_bytes / GIB:.1f}",
    )


def format_change(relative_change: float) -> str:
    """Format a relative change for the comparison of strategies, as a percentage with its sign."""
    # Adding 0.0 turns -0.0 into 0.0. Otherwise a change of -0.01 % would be shown as "-0.0 %".
    return f"{round(relative_change * 100, 1) + 0.0:+.1f} %"


def format_coverage(coverage: float) -> str:
    """Format the coverage of a strategy as a percentage, rounded down, so that only full coverage is 100 %."""
    return f"{int(coverage * 1000) / 10:.1f} %"


def _draw_plot(comparison: Comparison, evaluator: _PlanEvaluator, optimal_plan: PlanOrRefusal) -> str:
    other_figures = (
        {}
        if isinstance(optimal_plan, str)
        else evaluator.optimal_figures(optimal_plan, {str(share): share for share in PLOTTED_SHARES})
    )
    optimal_name = spec_spelling(Strategy.OPTIMAL)
    points = {
        f"{strategy} ({format_coverage(coverage)} covered)"
        if (coverage := min(figures.coverage.values())) < 1
        else strategy: point
        for strategy, figures in comparison.strategies.items()
        if (point := _plot_point(figures))
    }
    curve = {
        point
        for figures in (*comparison.optimal_variants.values(), *other_figures.values())
        if (point := _plot_point(figures))
    }
    optimal_points = {points[optimal_name]} if optimal_name in points else set()
    return plot_svg(points, sorted(curve | optimal_points), optimal_name)


def _plot_point(figures: PlanFigures) -> PlotPoint | None:
    return None if figures.padding is None else PlotPoint(figures.graphs, figures.padding)
