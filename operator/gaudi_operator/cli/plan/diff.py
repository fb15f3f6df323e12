"""`gaudi-plan diff`: the effects and the cost of a change of a document before the change is applied.

`compare_plans` finds the changes between two documents and between their plans. `compare_forecasts` estimates the cost
of the changes in memory and minutes (docs/internals/memory.md). `diff_output` returns the changes and the cost as
command output.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_operator.cli.plan.forecast import forecast_deployment
from gaudi_operator.cli.plan.forecast_output import format_amount
from gaudi_operator.cli.plan.heat import change_map
from gaudi_operator.cli.plan.output import CommandOutput, build_table, stdout_console
from gaudi_operator.cli.plan.question import PlanDocument
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
        return sum(len(each.added) + len(each.kept) * bool(self.discarding_fields) for each in self.phases.values())

    @property
    def planned_count(self) -> int:
        """The number of buckets of the new plan. Without a recipe cache, all of these buckets are compiled."""
        return sum(len(each.kept) + len(each.added) for each in self.phases.values())


def compare_plans(old: PlanDocument, new: PlanDocument, old_plan: BucketPlan, new_plan: BucketPlan) -> PlanDiff:
    """Return the differences between two documents and their plans."""
    return PlanDiff(
        changes=tuple(_find_changes("", _document_settings(old), _document_settings(new))),
        restarts=_restarts_pods(old, new),
        phases={
            phase: _compare_buckets(old_plan.buckets_of(phase), new_plan.buckets_of(phase)) for phase in BucketPhase
        },
    )


def _compare_buckets(old: tuple[Bucket, ...], new: tuple[Bucket, ...]) -> PhaseDiff:
    before, after = set(old), set(new)
    return PhaseDiff(
        kept=tuple(bucket for bucket in new if bucket in before),
        added=tuple(bucket for bucket in new if bucket not in before),
        dropped=tuple(bucket for bucket in old if bucket not in after),
    )


def _document_settings(question: PlanDocument) -> dict[str, Any]:
    """Return all settings of a document, including defaults, with the field names of the document's kind."""
    source = question.inference.spec if question.inference else question.config
    if source:
        return source.model_dump(mode="json", by_alias=True, exclude_none=True)
    limits = question.limits.model_dump(mode="json", by_alias=True)
    bucketing = question.policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"limits": limits, "bucketing": bucketing, "release": question.release}


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
    before, after = _forecast_figures(old, card, model), _forecast_figures(new, card, model)
    names = [*before, *(key for key in after if key not in before)]
    return tuple(CostChange(*key, before.get(key), after.get(key)) for key in names)


def _forecast_figures(question: PlanDocument, card: str | None, model: str | None) -> dict[tuple[str, str], Figure]:
    if question.release != "current":
        return {}
    return {(name, unit): figure for name, unit, figure in forecast_deployment(question, card, model).figures()}


def diff_output(old: PlanDocument, new: PlanDocument, card: str | None, model: str | None) -> CommandOutput:
    """Return the output of `gaudi-plan diff`: the differences between two documents and their cost on a card.

    Raises ConfigError.
    """
    old_plan, new_plan = old.plan(), new.plan()
    found = compare_plans(old, new, old_plan, new_plan)
    costs = compare_forecasts(old, new, card, model)
    sides = {"old": old.plan_warnings(old_plan), "new": new.plan_warnings(new_plan)}
    warnings = tuple(f"{side}: {warning}" for side, said in sides.items() for warning in said)

    def draw_picture() -> str:
        from gaudi_operator.cli.plan.drawing import draw_svg

        return draw_svg(
            [change_map(phase, each.kept, each.added, each.dropped) for phase, each in found.phases.items()]
        )

    return CommandOutput(
        data=_json_data(found, costs, warnings),
        rows=lambda: _csv_rows(found),
        show=lambda: _print_diff(found, costs),
        picture=draw_picture,
        warnings=warnings,
    )


def _json_data(found: PlanDiff, costs: Costs, warnings: tuple[str, ...]) -> dict[str, Any]:
    return {
        "changes": [{"path": each.path, "old": each.old, "new": each.new} for each in found.changes],
        "restarts": found.restarts,
        **{
            phase.value: {"kept": len(each.kept), "added": each.added, "dropped": each.dropped}
            for phase, each in found.phases.items()
        },
        "compiled": {
            "withRecipeCache": found.compiled_with_cache,
            "withoutRecipeCache": found.planned_count,
            "recipesDiscardedBy": found.discarding_fields,
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


def _csv_rows(found: PlanDiff) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [("change", "phase", "batch_size", "query_len", "num_blocks")]
    for phase in BucketPhase:
        each = found.phases[phase]
        rows += [("added", phase.value, *bucket) for bucket in each.added]
        rows += [("dropped", phase.value, *bucket) for bucket in each.dropped]
    return rows


def _print_diff(found: PlanDiff, costs: Costs) -> None:
    """Print the changed fields, the changed buckets, and the cost."""
    from gaudi_operator.cli.plan.drawing import heat_table

    console = stdout_console()
    if found.changes:
        console.print(_change_table(found.changes))
    for phase, each in found.phases.items():
        console.print(_phase_summary(phase, each))
        if each.added or each.dropped:
            console.print(heat_table(change_map(phase, each.kept, each.added, each.dropped), console))
    if costs:
        console.print(_cost_table(costs))
    for line in filter(None, (_restart_line(found), _compile_line(found))):
        console.print(line)


def _change_table(changes: tuple[Change, ...]) -> object:
    more = len(changes) - MOST_CHANGES
    rows = ((each.path, _shorten_value(each.old), _shorten_value(each.new)) for each in changes[:MOST_CHANGES])
    caption = f"and {more} more" if more > 0 else None
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


def _phase_summary(phase: BucketPhase, each: PhaseDiff) -> str:
    before, after = len(each.kept) + len(each.dropped), len(each.kept) + len(each.added)
    if not (each.added or each.dropped):
        return f"{phase}: the same {plural(after, 'bucket')}"
    return f"{phase}: {before} -> {plural(after, 'bucket')}, {len(each.added)} added, {len(each.dropped)} dropped"


def _restart_line(found: PlanDiff) -> str | None:
    if found.restarts is None:
        return None
    if found.restarts:
        return "A new revision is created. Every pod is replaced according to spec.rollout."
    return "No new revision is created, so no pod restarts."


def _compile_line(found: PlanDiff) -> str | None:
    if found.restarts is False:
        return None
    discarded = f", because recipes depend on {', '.join(found.discarding_fields)}" if found.discarding_fields else ""
    return (
        f"A new pod compiles {plural(found.planned_count, 'bucket')}; with a recipe cache of the old plan only "
        f"{found.compiled_with_cache}{discarded}."
    )
