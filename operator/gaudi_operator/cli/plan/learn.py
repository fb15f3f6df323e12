"""`gaudi-plan learn`: a change of spec.bucketing that reduces the padding for observed traffic.

See docs/how-to/plan-buckets.md, Learn from traffic.

`read_traffic_to_learn` sums the traffic of pods. `learn_plan` chooses buckets for this traffic. `print_learned_plan`
compares the current and the learned plan.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaudi_operator.cli.plan.comparison import compares_unmeasured_graphs
from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.options import PatchForm
from gaudi_operator.cli.plan.output import CommandOutput, output_console, output_table
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.bucketing import MOST_TEXT, BucketPolicy, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.optimal.cost import PlanCostScore, score_plan_cost, typical_cost
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic, Weights, format_traffic, parse_traffic

if TYPE_CHECKING:
    from rich.console import Console

MOST_FILE_BYTES = 64 * 1024


def _budget_warnings(document: PlanDocument, budget: OptimalSettings) -> tuple[str, ...]:
    """Return a warning if a plan is learned with a budget in bytes although graph sizes are unknown."""
    if budget.graph_bytes is None or not compares_unmeasured_graphs(document):
        return ()
    return (
        "--graph-bytes is counted at the rates of HPU graphs, but the bytes of graphs in TorchCompile are unknown. "
        "Give --graphs and --decode-graphs",
    )


@dataclass(frozen=True)
class LearnedPlan:
    """A learned plan as a merge patch for a GaudiInference, with the scores of the current and the learned plan.

    The scores are for the traffic from which the plan was learned.
    """

    patch: Mapping[str, Any]
    current_scores: Mapping[BucketPhase, PlanCostScore]
    learned_scores: Mapping[BucketPhase, PlanCostScore]
    warnings: tuple[str, ...]

    def rows(self) -> Iterator[Sequence[object]]:
        """Yield the rows of a CSV, the header first."""
        yield "phase", "plan", "graphs", "padding", "coverage"
        for phase in BucketPhase:
            for plan_name, scores in (("now", self.current_scores), ("learned", self.learned_scores)):
                score = scores[phase]
                yield phase.value, plan_name, score.graphs, score.padding, score.coverage

    def command_output(self) -> CommandOutput:
        """Return the output of the command."""
        return CommandOutput(data=self.patch, rows=self.rows, show=self._show, warnings=self.warnings)

    def _show(self) -> None:
        console = output_console()
        print_learned_plan(self, console)
        console.print("-o yaml prints the patch of the GaudiInference.")


def learn_plan(
    document: PlanDocument,
    traffic: Traffic,
    budget: OptimalSettings,
    form: PatchForm = PatchForm.OPTIMAL,
    max_file_bytes: int = MOST_FILE_BYTES,
) -> LearnedPlan:
    """Learn a plan for `traffic` within `budget`, and compare it with the plan of the document.

    The traffic of `budget` is not used. Raises PlanImpossible if the budget or the limits allow no plan. Raises
    ConfigError if the traffic has no shapes, if there is more than one budget, or if the buckets need a bucket file of
    more than `max_file_bytes`.
    """
    if not any(traffic.shapes_of(phase) for phase in BucketPhase):
        raise ConfigError("the traffic is empty: no request was served yet")
    budgets = [budget.prompt_graphs or budget.decode_graphs, budget.graph_bytes, budget.warmup_seconds]
    if sum(limit is not None for limit in budgets) > 1:
        raise ConfigError("give one budget: graphs, --graph-bytes or --warmup-seconds")
    # Without a budget, the budget of the document stays.
    policy = _learned_policy(document.policy, traffic, budget if budget != OptimalSettings() else None)
    plan = make_plan(policy, document.limits, document.blocks)
    cost = typical_cost(document.limits.block_size)
    return LearnedPlan(
        patch={"spec": {"bucketing": _bucketing_patch(policy, plan, form, max_file_bytes)}},
        current_scores={phase: score_plan_cost(document.plan(), phase, traffic, cost) for phase in BucketPhase},
        learned_scores={phase: score_plan_cost(plan, phase, traffic, cost) for phase in BucketPhase},
        warnings=(*document.warnings, *plan.warnings, *_budget_warnings(document, budget)),
    )


def _learned_policy(policy: BucketPolicy, traffic: Traffic, budget: OptimalSettings | None = None) -> BucketPolicy:
    """Return `policy` with strategy `Optimal` and this traffic, within `budget` if it is set.

    Raises ConfigError if the traffic is too long for a policy.
    """
    text = format_traffic(traffic)
    if len(text) > MOST_TEXT:
        raise ConfigError(f"the traffic takes more than {MOST_TEXT} bytes, even with rounded sizes")
    settings = budget or policy.optimal or OptimalSettings()
    optimal_settings = settings.model_copy(update={"traffic": text})
    return policy.model_copy(update={"strategy": Strategy.OPTIMAL, "optimal": optimal_settings, "file": None})


def read_traffic_to_learn(texts: Iterable[tuple[str, str]]) -> Traffic:
    """Return the summed traffic of several pods. `texts` are pairs of a name and the traffic of a pod as text.

    Raises PlanImpossible with the name and the line if a text is invalid.
    """
    traffics = [parse_traffic(text, name) for name, text in texts]
    return Traffic(*(_sum_weights(traffic.shapes_of(phase) for traffic in traffics) for phase in BucketPhase))


def _sum_weights(histograms: Iterable[Weights]) -> Weights:
    weights: dict[Bucket, float] = {}
    for histogram in histograms:
        for shape, weight in histogram.items():
            weights[shape] = weights.get(shape, 0.0) + weight
    return weights


def _bucketing_patch(policy: BucketPolicy, plan: BucketPlan, form: PatchForm, max_file_bytes: int) -> dict[str, Any]:
    """Return the merge patch for spec.bucketing. The patch removes fields of other strategies by null."""
    others = {"file": None, "optimal": None, "paddingAware": None}
    if form is PatchForm.OPTIMAL and policy.optimal:
        settings = policy.optimal.model_dump(by_alias=True)
        settings["graphMemory"] = settings.pop("graphBytes")
        return {**others, "strategy": capitalize_contract_word(Strategy.OPTIMAL), "optimal": settings}
    file_text = "".join(f"{tuple(bucket)}\n" for phase in BucketPhase for bucket in plan.buckets_of(phase))
    if len(file_text) > max_file_bytes:
        raise ConfigError(
            f"{len(plan.prompt) + len(plan.decode)} buckets take {len(file_text)} bytes as a file, but the limit is "
            f"{max_file_bytes} bytes. Choose --as optimal or fewer graphs"
        )
    return {**others, "strategy": capitalize_contract_word(Strategy.FILE), "file": file_text}


def print_learned_plan(learned_plan: LearnedPlan, console: "Console") -> None:
    """Print the output of `gaudi-plan learn`: the current and the learned plan, scored on the learned traffic."""
    rows = (
        (phase.value, plan_name, *_score_cells(scores[phase]))
        for phase in learned_plan.current_scores
        for plan_name, scores in (("now", learned_plan.current_scores), ("learned", learned_plan.learned_scores))
    )
    console.print("Both plans on the learned traffic (padding 1.0 is none):")
    console.print(output_table(rows, ("phase", "plan"), ("graphs", "padding", "covered")))


def _score_cells(score: PlanCostScore) -> tuple[str, str, str]:
    """Return graphs, padding and coverage as cells of a table."""
    padding = "-" if score.padding is None else f"{score.padding:.3f}"
    coverage = "-" if score.coverage is None else f"{score.coverage:.1%}"
    return str(score.graphs), padding, coverage
