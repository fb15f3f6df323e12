"""`gaudi-plan diff`: the effects and the cost of a change of a document before the change is applied.

`compare_plans` finds the changes between two documents and between their plans. `compare_forecasts` estimates the cost
of the changes in memory and minutes (docs/internals/memory.md). `diff_output` returns the changes and the cost as
command output.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.forecast import forecast_deployment
from gaudi_operator.cli.plan.forecast_output import format_amount
from gaudi_operator.cli.plan.heat import change_map
from gaudi_operator.cli.plan.output import CommandOutput, build_table, stdout_console
from gaudi_operator.core.rollout.inputs import are_same_inputs, revision_inputs, serialize_inputs
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.figure import Figure, lowest_confidence
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.units import plural

RECIPES_DEPEND_ON = (
    "model.source",
    "model.path",
    "model.dtype",
    "model.hub",
    "model.kvCacheDtype",
    "model.quantization",
    "model.adapters",
    "model.maxAdapterRank",
    "model.maxAdaptersPerBatch",
    "accelerator.generation",
    "parallelism",
    "engine.name",
    "server.image",
    "engine.executionMode",
    "engine.compileBackend",
    "engine.device",
    "engine.card",
    "engine.settings.VLLM_CONFIG_HIDDEN_LAYERS",
    "engine.settings.RUNTIME_SCALE_PATCHING",
    "engine.settings.VLLM_HPU_FORCE_CHANNEL_FP8",
    "engine.blockSize",
    "engine.contiguousPagedAttention",
    "limits.blockSize",
    "limits.contiguousPagedAttention",
    "release",
)
"""Fields that change the content of compiled recipes. After such a change, old recipes cannot be used
(docs/how-to/recipe-cache.md)."""
MOST_CHANGES = 30
LONGEST_VALUE = 40


@dataclass(frozen=True)
class Change:
    """A field that differs between two documents, with the values before and after the change.

    None means that the field is not set.
    """

    path: str
    old: Any
    new: Any

    @property
    def discards_recipes(self) -> bool:
        """True if recipes that were compiled before the change cannot be used after the change."""
        return any(self.path == field or self.path.startswith(f"{field}.") for field in RECIPES_DEPEND_ON)


@dataclass(frozen=True)
class PhaseDiff:
    """The difference between two plans in one phase: kept, added and dropped buckets, in the order of the plan."""

    kept: tuple[Bucket, ...]
    added: tuple[Bucket, ...]
    dropped: tuple[Bucket, ...]


@dataclass(frozen=True)
class PlanDiff:
    """The differences between two documents and their plans. `restarts` is None if restarts of pods are unknown."""

    changes: tuple[Change, ...]
    restarts: bool | None
    phases: Mapping[BucketPhase, PhaseDiff]

    @property
    def discarding_fields(self) -> tuple[str, ...]:
        """The paths of the changed fields that make all compiled recipes unusable."""
        return tuple(change.path for change in self.changes if change.discards_recipes)

    @property
    def compiled_with_cache(self) -> int:
        """The number of buckets that must be compiled if the recipe cache contains the whole old plan."""
        return sum(len(diff.added) + len(diff.kept) * bool(self.discarding_fields) for diff in self.phases.values())

    @property
    def planned_count(self) -> int:
        """The number of buckets of the new plan. Without a recipe cache, all of these buckets are compiled."""
        return sum(len(diff.kept) + len(diff.added) for diff in self.phases.values())


def compare_plans(old: PlanDocument, new: PlanDocument, old_plan: BucketPlan, new_plan: BucketPlan) -> PlanDiff:
    """Return the differences between two documents and their plans."""
    return PlanDiff(
        changes=tuple(_find_changes("", _document_settings(old), _document_settings(new))),
        restarts=_restarts_pods(old, new),
        phases={
            phase: _compare_buckets(old_plan.buckets_of(phase), new_plan.buckets_of(phase)) for phase in BucketPhase
        },
    )


def _compare_buckets(old_buckets: tuple[Bucket, ...], new_buckets: tuple[Bucket, ...]) -> PhaseDiff:
    before, after = set(old_buckets), set(new_buckets)
    return PhaseDiff(
        kept=tuple(bucket for bucket in new_buckets if bucket in before),
        added=tuple(bucket for bucket in new_buckets if bucket not in before),
        dropped=tuple(bucket for bucket in old_buckets if bucket not in after),
    )


def _document_settings(document: PlanDocument) -> dict[str, Any]:
    """Return all settings of a document, including defaults, with the field names of the document's kind."""
    source = document.inference.spec if document.inference else document.config
    if source:
        return source.model_dump(mode="json", by_alias=True, exclude_none=True)
    limits = document.limits.model_dump(mode="json", by_alias=True)
    bucketing = document.policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"limits": limits, "bucketing": bucketing, "release": document.release}


def _find_changes(path: str, old: object, new: object) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _find_changes(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif old != new:
        yield Change(path, old, new)


def _restarts_pods(old: PlanDocument, new: PlanDocument) -> bool | None:
    """Return True if pods are replaced (docs/how-to/revisions.md); None unless both documents are GaudiInferences."""
    if old.inference is None or new.inference is None:
        return None
    return not are_same_inputs(serialize_inputs(revision_inputs(old.inference)), revision_inputs(new.inference))


@dataclass(frozen=True)
class CostChange:
    """One figure before and after the change, in `unit` (bytes, blocks or seconds). None means unknown."""

    name: str
    unit: str
    old: Figure | None
    new: Figure | None


Costs = tuple[CostChange, ...]


def compare_forecasts(old: PlanDocument, new: PlanDocument, card: str | None, model: str | None) -> Costs:
    """Return the figures of both forecasts in pairs, in the order of the forecast. Raises ConfigError.

    Release 1.22 has no forecast, so the figures of a document for this release are unknown.
    """
    old_figures, new_figures = _forecast_figures(old, card, model), _forecast_figures(new, card, model)
    figure_keys = [*old_figures, *(key for key in new_figures if key not in old_figures)]
    return tuple(CostChange(*key, old_figures.get(key), new_figures.get(key)) for key in figure_keys)


def _forecast_figures(document: PlanDocument, card: str | None, model: str | None) -> dict[tuple[str, str], Figure]:
    if document.release != "current":
        return {}
    return {(name, unit): figure for name, unit, figure in forecast_deployment(document, card, model).figures()}


def diff_output(old: PlanDocument, new: PlanDocument, card: str | None, model: str | None) -> CommandOutput:
    """Return the output of `gaudi-plan diff`: the differences between two documents and their cost on a card.

    Raises ConfigError.
    """
    old_plan, new_plan = old.plan(), new.plan()
    plan_diff = compare_plans(old, new, old_plan, new_plan)
    costs = compare_forecasts(old, new, card, model)
    warnings_by_side = {"old": old.plan_warnings(old_plan), "new": new.plan_warnings(new_plan)}
    warnings = tuple(f"{side}: {warning}" for side, messages in warnings_by_side.items() for warning in messages)

    def draw_picture() -> str:
        from gaudi_operator.cli.plan.drawing import draw_svg

        return draw_svg(
            [change_map(phase, diff.kept, diff.added, diff.dropped) for phase, diff in plan_diff.phases.items()]
        )

    return CommandOutput(
        data=_json_data(plan_diff, costs, warnings),
        rows=lambda: _csv_rows(plan_diff),
        show=lambda: _print_diff(plan_diff, costs),
        picture=draw_picture,
        warnings=warnings,
    )


def _json_data(plan_diff: PlanDiff, costs: Costs, warnings: tuple[str, ...]) -> dict[str, Any]:
    return {
        "changes": [{"path": change.path, "old": change.old, "new": change.new} for change in plan_diff.changes],
        "restarts": plan_diff.restarts,
        **{
            phase.value: {"kept": len(diff.kept), "added": diff.added, "dropped": diff.dropped}
            for phase, diff in plan_diff.phases.items()
        },
        "compiled": {
            "withRecipeCache": plan_diff.compiled_with_cache,
            "withoutRecipeCache": plan_diff.planned_count,
            "recipesDiscardedBy": plan_diff.discarding_fields,
        },
        "forecast": [
            {"figure": cost.name, "unit": cost.unit, "old": _figure_data(cost.old), "new": _figure_data(cost.new)}
            for cost in costs
        ],
        "warnings": warnings,
    }


def _figure_data(figure: Figure | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {"value": figure.value, "confidence": figure.confidence, "source": figure.source}


def _csv_rows(plan_diff: PlanDiff) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [("change", "phase", "batch_size", "query_len", "num_blocks")]
    for phase in BucketPhase:
        diff = plan_diff.phases[phase]
        rows += [("added", phase.value, *bucket) for bucket in diff.added]
        rows += [("dropped", phase.value, *bucket) for bucket in diff.dropped]
    return rows


def _print_diff(plan_diff: PlanDiff, costs: Costs) -> None:
    """Print the changed fields, the changed buckets, and the cost."""
    from gaudi_operator.cli.plan.drawing import heat_table

    console = stdout_console()
    if plan_diff.changes:
        console.print(_change_table(plan_diff.changes))
    for phase, diff in plan_diff.phases.items():
        console.print(_phase_summary(phase, diff))
        if diff.added or diff.dropped:
            console.print(heat_table(change_map(phase, diff.kept, diff.added, diff.dropped), console))
    if costs:
        console.print(_cost_table(costs))
    for line in filter(None, (_restart_line(plan_diff), _compile_line(plan_diff))):
        console.print(line)


def _change_table(changes: tuple[Change, ...]) -> object:
    omitted_count = len(changes) - MOST_CHANGES
    rows = ((change.path, _shorten_value(change.old), _shorten_value(change.new)) for change in changes[:MOST_CHANGES])
    caption = f"and {omitted_count} more" if omitted_count > 0 else None
    return build_table(rows, ("field", "old", "new"), title="What is different", caption=caption)


def _shorten_value(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _cost_table(costs: Costs) -> object:
    caption = "`gaudi-plan forecast --sources` says where figures come from"
    return build_table(_cost_rows(costs), ("figure", "old", "new", "sure"), title="An estimate", caption=caption)


def _cost_rows(costs: Costs) -> Iterator[Sequence[str]]:
    for cost in costs:
        old, new = (format_amount(figure.value, cost.unit) if figure else "unknown" for figure in (cost.old, cost.new))
        if old != new or cost is costs[-1]:
            yield cost.name, old, new, lowest_confidence(*(figure for figure in (cost.old, cost.new) if figure))


def _phase_summary(phase: BucketPhase, diff: PhaseDiff) -> str:
    before, after = len(diff.kept) + len(diff.dropped), len(diff.kept) + len(diff.added)
    if not (diff.added or diff.dropped):
        return f"{phase}: the same {plural(after, 'bucket')}"
    return f"{phase}: {before} -> {plural(after, 'bucket')}, {len(diff.added)} added, {len(diff.dropped)} dropped"


def _restart_line(plan_diff: PlanDiff) -> str | None:
    if plan_diff.restarts is None:
        return None
    if plan_diff.restarts:
        return "A new revision is created. Every pod is replaced according to spec.rollout."
    return "No new revision is created, so no pod restarts."


def _compile_line(plan_diff: PlanDiff) -> str | None:
    if plan_diff.restarts is False:
        return None
    fields = plan_diff.discarding_fields
    reason = f", because recipes depend on {', '.join(fields)}" if fields else ""
    return (
        f"A new pod compiles {plural(plan_diff.planned_count, 'bucket')}; with a recipe cache of the old plan only "
        f"{plan_diff.compiled_with_cache}{reason}."
    )
