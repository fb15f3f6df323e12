"""The table of strategies of `gaudi-plan forecast`, and the plot of graphs against padding.

See docs/how-to/plan-buckets.md. All strategies make a plan with the same limits. Strategy Optimal also makes plans
with other numbers of graphs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.output import output_table
from gaudi_operator.cli.plan.plan_figures import PlanFigures, calculate_plan_figures, traffic_for_plan_figures
from gaudi_operator.cli.plan.plot import PlotPoint, plot_svg
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.bucketing import OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.cost import price_in_graphs
from gaudi_runtime.planning.optimal.optimizer import BOTH, Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.ranges import RANGED_STRATEGIES
from gaudi_runtime.traffic.histogram import Traffic
from gaudi_runtime.units import GIB

OPTIMAL = capitalize_contract_word(Strategy.OPTIMAL)
TABLE_SHARES = {"half": 0.5, "twice": 2.0}
"""The other numbers of graphs in the table, as multiples of Optimal's number."""
PLOT_SHARES = {**TABLE_SHARES, **{f"{share} times": share for share in (0.35, 0.7, 1.4, 3.0, 4.0)}}
"""The other numbers of graphs in the plot. The search for each takes one or two seconds on one core."""
COLUMNS = ("graphs", "prompt\npadding", "decode\npadding", "covered", "warm-up\nseconds")


@dataclass(frozen=True)
class Comparison:
    """The figures of all plans by name, the reasons for missing plans, and the source of the traffic."""

    figures: Mapping[str, PlanFigures]
    refusals: Mapping[str, str]
    traffic_source: str

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        figures = {name: _figures_data(figures) for name, figures in self.figures.items()}
        return figures | {name: {"refused": reason} for name, reason in self.refusals.items()}

    def table(self) -> object:
        """Return the comparison as a table of rich."""
        # Omit the column "GiB" if no strategy has a value for this column, so that the table fits into 80 characters.
        bytes_known = any(figures.graph_bytes is not None for figures in self.figures.values())
        columns = (*COLUMNS, "GiB") if bytes_known else COLUMNS
        rows = ((name, *_figure_cells(figures)[: len(columns)]) for name, figures in self.figures.items())
        caption = f"estimates for all graphs; {self.traffic_source}"
        return output_table(rows, ("strategy",), columns, caption=caption)


def compare_strategies(document: PlanDocument, shares: Mapping[str, float] = TABLE_SHARES) -> Comparison:
    """Return the figures of every strategy, and of Optimal with multiples (`shares`) of its number of graphs."""
    policy, limits, blocks = document.policy, document.limits, document.blocks
    traffic = traffic_for_plan_figures(policy, limits, blocks)
    plans: dict[str, BucketPlan] = {}
    refusals: dict[str, str] = {}
    file_strategies = () if policy.file is None else (Strategy.FILE,)
    for strategy in (*RANGED_STRATEGIES, *file_strategies, Strategy.OPTIMAL):
        try:
            plans[capitalize_contract_word(strategy)] = make_plan(
                policy.model_copy(update={"strategy": strategy}), limits, blocks
            )
        except PlanImpossible as error:
            refusals[capitalize_contract_word(strategy)] = str(error)
    if OPTIMAL in plans:
        for name, share in shares.items():
            plans[f"{OPTIMAL}, {name}"] = _plan_with_share(document, traffic.traffic, plans[OPTIMAL], share)
    unmeasured = compares_unmeasured_graphs(document)
    figures = {
        name: calculate_plan_figures(plan, limits, blocks, traffic, bytes_unknown=unmeasured)
        for name, plan in plans.items()
    }
    return Comparison(figures, refusals, traffic.source)


def draw_comparison(document: PlanDocument) -> str:
    """Return the plot of graphs against padding as SVG text. The plans of Optimal are a curve."""
    points = {
        name: PlotPoint(figures.graphs, figures.padding)
        for name, figures in compare_strategies(document, PLOT_SHARES).figures.items()
        if figures.padding is not None
    }
    curve = {point for name, point in points.items() if name.partition(",")[0] == OPTIMAL}
    return plot_svg({name: point for name, point in points.items() if "," not in name}, sorted(curve), OPTIMAL)


def compares_unmeasured_graphs(document: PlanDocument) -> bool:
    """Return True if strategies cannot be compared by graph bytes, because the document's graph sizes are unknown."""
    # Import the forecast in this function, so that importing this module does not load the forecast.
    from gaudi_runtime.forecast.inputs import inputs_from_config

    return inputs_from_config(document.config).has_unmeasured_graphs


def _plan_with_share(document: PlanDocument, traffic: Traffic, plan: BucketPlan, share: float) -> BucketPlan:
    """Return Optimal's plan with `share` times the graphs of `plan`, but at least the minimum for full coverage."""
    policy, limits, blocks = document.policy, document.limits, document.blocks
    optimizer = Optimizer(traffic, limits, blocks)
    min_graphs = sum(optimizer.least_price(phase, price_in_graphs) for phase in BOTH)
    graph_count = max(round(share * (len(plan.prompt) + len(plan.decode))), min_graphs)
    buckets_by_phase = optimizer.choose(BOTH, price_in_graphs, graph_count, "the number of graphs")
    # Make the plan from a policy with these numbers of graphs. A user who sets the same numbers gets the same buckets.
    settings = OptimalSettings(
        traffic=policy.optimal.traffic if policy.optimal else None,
        prompt_graphs=len(buckets_by_phase[BucketPhase.PROMPT]),
        decode_graphs=len(buckets_by_phase[BucketPhase.DECODE]),
    )
    return make_plan(policy.model_copy(update={"strategy": Strategy.OPTIMAL, "optimal": settings}), limits, blocks)


def _figures_data(figures: PlanFigures) -> dict[str, Any]:
    return {
        **{phase.value: {"graphs": score.graphs, "padding": score.padding} for phase, score in figures.scores.items()},
        "coverage": min(figures.coverage.values()),
        "withoutBucket": figures.missing_count,
        "graphBytes": figures.graph_bytes,
        "warmupSeconds": figures.warmup_seconds,
    }


def _figure_cells(figures: PlanFigures) -> tuple[str, ...]:
    scores = [figures.scores[phase] for phase in BucketPhase]
    return (
        " + ".join(str(score.graphs) for score in scores),
        *("-" if score.padding is None else f"{score.padding:.3f}" for score in scores),
        # Round the coverage down, so that only full coverage is 100 %.
        f"{int(min(figures.coverage.values()) * 1000) / 10:.1f} %",
        f"{figures.warmup_seconds:.0f}",
        "-" if figures.graph_bytes is None else f"{figures.graph_bytes / GIB:.1f}",
    )
