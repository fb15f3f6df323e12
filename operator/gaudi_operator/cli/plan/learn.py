"""`gaudi-plan learn`: a change of spec.bucketing that reduces the padding for observed traffic.

See docs/how-to/learn-buckets.md, While serving.

`read_texts` sums the traffic of pods. `learn` chooses buckets for this traffic. `print_learned` compares the current
and the learned plan.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaudi_operator.cli.plan.options import Form
from gaudi_operator.cli.plan.output import CommandOutput, stdout, table
from gaudi_operator.cli.plan.question import PlanDocument
from gaudi_operator.cli.plan.strategy_scores import Budget, budget_warnings, verdict_cells
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.bucketing import BucketPolicy, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.learning.comparison import learned_policy
from gaudi_runtime.planning.optimal.cost import Score, score, typical_cost
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic, Weights, read_traffic

if TYPE_CHECKING:
    from rich.console import Console

MOST_FILE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Learned:
    """A learned plan as a merge patch for a GaudiInference, with the scores of the current and the learned plan.

    The scores are for the traffic from which the plan was learned.
    """

    patch: Mapping[str, Any]
    now: Mapping[BucketPhase, Score]
    learned: Mapping[BucketPhase, Score]
    warnings: tuple[str, ...]

    def rows(self) -> Iterator[Sequence[object]]:
        """Yield the rows of a CSV, the header first."""
        yield "phase", "plan", "graphs", "padding", "coverage"
        for phase in BucketPhase:
            for plan, verdicts in (("now", self.now), ("learned", self.learned)):
                verdict = verdicts[phase]
                yield phase.value, plan, verdict.graphs, verdict.padding, verdict.coverage

    def answer(self) -> CommandOutput:
        """Return the output of the command."""
        return CommandOutput(data=self.patch, rows=self.rows, show=self._show, warnings=self.warnings)

    def _show(self) -> None:
        console = stdout()
        print_learned(self, console)
        console.print("-o yaml prints the patch of the GaudiInference.")


def learn(
    question: PlanDocument,
    traffic: Traffic,
    budget: Budget,
    form: Form = Form.OPTIMAL,
    most_file_bytes: int = MOST_FILE_BYTES,
) -> Learned:
    """Learn a plan for `traffic` within `budget`, and compare it with the plan of the document.

    Raises PlanImpossible if the budget or the limits allow no plan. Raises ConfigError if the traffic has no shapes, or
    if the buckets need a bucket file of more than `most_file_bytes`.
    """
    if not any(traffic.shapes_of(phase) for phase in BucketPhase):
        raise ConfigError("the traffic is empty: no request was served yet")
    policy = _policy(question.policy, traffic, budget)
    plan = make_plan(policy, question.limits, question.blocks)
    cost = typical_cost(question.limits.block_size)
    return Learned(
        patch={"spec": {"bucketing": _bucketing(policy, plan, form, most_file_bytes)}},
        now={phase: score(question.plan(), phase, traffic, cost) for phase in BucketPhase},
        learned={phase: score(plan, phase, traffic, cost) for phase in BucketPhase},
        warnings=(*question.warnings, *plan.warnings, *budget_warnings(question, budget)),
    )


def read_texts(texts: Iterable[tuple[str, str]]) -> Traffic:
    """Return the summed traffic of several pods. `texts` are pairs of a name and the traffic of a pod as text.

    Raises PlanImpossible with the name and the line if a text is invalid.
    """
    read = [read_traffic(text, name) for name, text in texts]
    return Traffic(*(_sum(each.shapes_of(phase) for each in read) for phase in BucketPhase))


def _sum(parts: Iterable[Weights]) -> Weights:
    weights: dict[Bucket, float] = {}
    for part in parts:
        for shape, weight in part.items():
            weights[shape] = weights.get(shape, 0.0) + weight
    return weights


def _policy(policy: BucketPolicy, traffic: Traffic, budget: Budget) -> BucketPolicy:
    """Return a policy of strategy Optimal for this traffic. If `budget` is empty, the budget of `policy` stays."""
    given = OptimalSettings(
        prompt_graphs=budget.prompt_graphs,
        decode_graphs=budget.decode_graphs,
        graph_bytes=budget.graph_bytes,
        warmup_seconds=budget.warmup_seconds,
    )
    return learned_policy(policy, traffic, given if given != OptimalSettings() else None)


def _bucketing(policy: BucketPolicy, plan: BucketPlan, form: Form, most_file_bytes: int) -> dict[str, Any]:
    """Return the merge patch for spec.bucketing. The patch removes fields of other strategies by null."""
    if form is Form.OPTIMAL and policy.optimal:
        settings = {**policy.optimal.model_dump(by_alias=True), "trafficFrom": None}
        return {"strategy": as_in_spec(Strategy.OPTIMAL), "optimal": settings, "file": None, "fileFrom": None}
    text = "".join(f"{tuple(bucket)}\n" for phase in BucketPhase for bucket in plan.buckets_of(phase))
    if len(text) > most_file_bytes:
        raise ConfigError(
            f"{len(plan.prompt) + len(plan.decode)} buckets take {len(text)} bytes as a file, but the limit is "
            f"{most_file_bytes} bytes. Choose --as optimal or fewer graphs"
        )
    return {"strategy": as_in_spec(Strategy.FILE), "file": text, "fileFrom": None, "optimal": None}


def print_learned(found: Learned, console: "Console") -> None:
    """Print the output of `gaudi-plan learn`: the current and the learned plan, scored on the learned traffic."""
    rows = (
        (phase.value, plan, *verdict_cells(verdicts[phase]))
        for phase in found.now
        for plan, verdicts in (("now", found.now), ("learned", found.learned))
    )
    console.print("Both plans on the learned traffic (padding 1.0 is none):")
    console.print(table(rows, ("phase", "plan"), ("graphs", "padding", "covered")))
