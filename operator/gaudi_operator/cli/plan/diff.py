"""`gaudi-plan diff`: what a change of limits or buckets costs before it is applied."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaudi_operator.cli.plan.asking import FromCluster, KvBlocks, Name, Namespace, ask, one_sentence
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.plan_diff import PhaseDiff, PlanDiff, compare
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from gaudi_operator.cli.plan.diff_forecast import Costs
    from gaudi_runtime.figure import Figure

CardOption = Annotated[str | None, typer.Option(help="Card to forecast both for: gaudi2, gaudi3 or none.")]
ModelOption = Annotated[str | None, typer.Option(help="Model to forecast both for, as for forecast.")]
Files = Annotated[list[Path], typer.Argument(metavar="[OLD] NEW", help="Two documents; one with --from-cluster.")]


def diff(
    files: Files,
    from_cluster: FromCluster = None,
    namespace: Namespace = None,
    name: Name = None,
    kv_blocks: KvBlocks = None,
    card: CardOption = None,
    model: ModelOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print what changes: buckets, what is compiled again, whether pods are replaced, memory and minutes.

    \b
    gaudi-plan diff old.yaml new.yaml
    gaudi-plan diff --from-cluster llama -n models new.yaml
    """
    with one_sentence():
        if len(files) != (1 if from_cluster else 2) or files == [Path("-"), Path("-")]:
            raise ConfigError("give two documents, OLD and NEW, or --from-cluster NAME and NEW")
        old_file = None if from_cluster else files[0]
        old = ask(old_file, from_cluster, namespace, None if from_cluster else name, None, kv_blocks)
        new = ask(files[-1], None, None, name, None, kv_blocks)
        write(_answer(old, new, card, model), output)


def _answer(old: PlanQuestion, new: PlanQuestion, card: str | None, model: str | None) -> Answer:
    from gaudi_operator.cli.plan.diff_forecast import forecasts

    old_plan, new_plan = old.plan(), new.plan()
    found = compare(old, new, old_plan, new_plan)
    costs = forecasts(old, new, card, model)
    sides = {"old": old.warnings_about(old_plan), "new": new.warnings_about(new_plan)}
    warnings = tuple(f"{side}: {warning}" for side, said in sides.items() for warning in said)

    def show() -> None:
        from gaudi_operator.cli.plan.diff_table import print_diff

        print_diff(found, costs)

    def picture() -> str:
        from gaudi_operator.cli.heat.maps import change_map
        from gaudi_operator.cli.heat.terminal import svg

        return svg([change_map(phase, each.kept, each.added, each.dropped) for phase, each in found.phases.items()])

    return Answer(
        data=_data(found, costs, warnings), rows=lambda: _rows(found), show=show, picture=picture, warnings=warnings
    )


def _data(found: PlanDiff, costs: "Costs", warnings: tuple[str, ...]) -> dict[str, Any]:
    return {
        "changes": [{"path": each.path, "old": each.old, "new": each.new} for each in found.changes],
        "restarts": found.restarts,
        **{phase.value: _counts(each) for phase, each in found.phases.items()},
        "compiled": {
            "withRecipeCache": found.compiled_anew,
            "withoutRecipeCache": found.planned,
            "recipesDiscardedBy": found.discarding,
        },
        "forecast": [
            {"figure": cost.name, "unit": cost.unit, "old": _figure(cost.old), "new": _figure(cost.new)}
            for cost in costs
        ],
        "warnings": warnings,
    }


def _figure(figure: "Figure | None") -> dict[str, Any] | None:
    if figure is None:
        return None
    return {"value": figure.value, "confidence": figure.confidence, "source": figure.source}


def _counts(each: PhaseDiff) -> dict[str, Any]:
    return {"kept": len(each.kept), "added": each.added, "dropped": each.dropped}


def _rows(found: PlanDiff) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [("change", "phase", "batch_size", "query_len", "num_blocks")]
    for phase in BucketPhase:
        each = found.phases[phase]
        rows += [("added", phase.value, *bucket) for bucket in each.added]
        rows += [("dropped", phase.value, *bucket) for bucket in each.dropped]
    return rows
