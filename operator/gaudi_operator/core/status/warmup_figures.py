"""The figures in the status: the plan, captured graphs, warm-up progress, recompilations and shared recipes.

The figures of the plan and of shared recipes are those that pods of the current revision have reported. Before the
first report there are none. spec_conditions.py judges the plan.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from gaudi_operator.api.base import MOST_COUNT
from gaudi_operator.api.v1alpha1.status import (
    CapturedPercent,
    ColdShape,
    PlanBasis,
    PlanState,
    PodState,
    RecipeCacheState,
    Recompiles,
    WarmupProgress,
)
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.pods.pod_progress import WARMED_UP_PHASES, captured_progress_percent
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rendering.runtime_config import runtime_config_preparation
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.text_formats import format_timestamp, parse_timestamp_text
from gaudi_runtime.contract.report import MemorySplitReport, PlanGapsReport, SharedRecipesOutcome, WarmupReport
from gaudi_runtime.units import format_bytes, plural

REPORTED_LATER = (
    "The first pod reports the figures of the plan. To estimate them before, run `gaudi-plan forecast --from-cluster"
)


def warmup_plan_state(state: State) -> PlanState | None:
    """Return the reported figures of the plan, or None before the first report.

    The figures stay until another pod has reported. If no pod runs the spec, there are no figures. This is the case if
    the spec was refused or rolled back. If the spec cannot be read, the written figures stay.
    """
    if state.inference.unreadable:
        return state.previous_status.plan
    choice = state.rollout.choice
    if state.violation is not None or (choice is not None and choice.is_rolled_back):
        return None
    return _reported_plan(state) or _written_plan(state)


def _reported_plan(state: State) -> PlanState | None:
    """Return the plan of the warmed-up pod with the fewest captured graphs, or else of a pod that still warms up."""
    plans = [
        (report.phase not in WARMED_UP_PHASES, report.prompt.captured + report.decode.captured, pod.name, plan)
        for pod in state.updated_pods
        if (report := pod.report) and (plan := _plan_of_report(state, pod, report))
    ]
    return min(plans, key=lambda entry: entry[:3])[3] if plans else None


def _plan_of_report(state: State, pod: PodView, report: WarmupReport) -> PlanState | None:
    """Return the plan in a report, with its costs if the pod is warmed up, or None before the pod has a plan."""
    gaps, memory = report.gaps, report.memory
    if gaps is None or memory is None:
        return None
    plan = _counted_plan(state, pod, report, gaps, memory)
    if report.phase not in WARMED_UP_PHASES:
        return plan
    return plan.model_copy(
        update={
            "graph_bytes": (report.prompt.graph_bytes + report.decode.graph_bytes) or None,
            "warmup_seconds": round(report.elapsed_seconds),
            "captured_percent": CapturedPercent(
                prompt=captured_progress_percent(report.prompt), decode=captured_progress_percent(report.decode)
            ),
        }
    )


def _counted_plan(
    state: State, pod: PodView, report: WarmupReport, gaps: PlanGapsReport, memory: MemorySplitReport
) -> PlanState:
    block_size = memory.block_size
    return PlanState(
        basis=PlanBasis.SIMULATED if report.simulated else PlanBasis.MEASURED,
        prompt_buckets=report.prompt.planned,
        decode_buckets=report.decode.planned,
        vision_buckets=report.vision.planned if report.vision else None,
        kv_blocks=memory.kv_blocks,
        block_size=block_size if block_size != state.inference.spec.engine.block_size else None,
        prompt_gaps=gaps.prompt,
        decode_gaps=gaps.decode,
        source=f"pod {pod.name}",
    )


def _written_plan(state: State) -> PlanState | None:
    """Return the plan from the written status if a pod of the current revision reported it, otherwise None."""
    previous_status = state.previous_status
    return previous_status.plan if previous_status.revision.current == state.current_name else None


def describe_warmup_plan(plan: PlanState | None, inference: Inference) -> str:
    """Return a sentence with the bucket counts, bytes and seconds of a plan, or about the time of the first report."""
    if plan is None:
        return f"{REPORTED_LATER} {inference.identity.name}`."
    noun, outcome = runtime_config_preparation(inference).words
    vision_clause = f" and {plural(plan.vision_buckets, 'vision bucket')}" if plan.vision_buckets else ""
    counts = f"{plan.prompt_buckets} prompt and {plan.decode_buckets} decode {noun}"
    if plan.warmup_seconds is None:
        return f"{counts}{vision_clause} are planned for {plan.kv_blocks} KV blocks, reported by {plan.source}."
    memory = "" if plan.graph_bytes is None else f"{format_bytes(plan.graph_bytes)}, "
    cost = f"{memory}{plan.warmup_seconds} s from start to serving"
    origin = "simulated" if plan.basis is PlanBasis.SIMULATED else "measured"
    percents = ((plan.captured_percent.prompt, "prompt"), (plan.captured_percent.decode, "decode"))
    shortfalls = [f"{percent} % of {phase}" for percent, phase in percents if percent is not None and percent < 100]
    share = f" ({' and '.join(shortfalls)} {noun} are {outcome})" if shortfalls else ""
    return f"{counts}{share}{vision_clause}, {cost}: {origin} by {plan.source}."


MAX_TEXT = 1024
_FILLED = (SharedRecipesOutcome.HIT, SharedRecipesOutcome.SEEDED)


def warmup_recipe_cache_state(state: State) -> RecipeCacheState | None:
    """Return the recipe cache state, or None if recipes are not shared. The written state stays until a pod reports."""
    if state.inference.spec.recipe_cache is None:
        return None
    reports = _recipe_reports(state)
    if not reports:
        is_same_revision = state.previous_status.revision.current == state.current_name
        return (state.previous_status.recipe_cache if is_same_revision else None) or RecipeCacheState(phase="Empty")
    return RecipeCacheState(phase=_cache_phase(reports), message=_worst_outcome_reason(reports))


def warmup_recipe_miss_reason(state: State) -> str | None:
    """Return why no pod of the current revision can read or add recipes, or None.

    The result is None if a pod can read or add recipes, or if no pod has reported yet.
    """
    reports = _recipe_reports(state) if state.inference.spec.recipe_cache else []
    return _worst_outcome_reason(reports) if reports and _cache_phase(reports) == "Missed" else None


def _recipe_reports(state: State) -> list[WarmupReport]:
    return [pod.report for pod in state.updated_pods if pod.report and pod.report.shared_recipes]


def _outcomes(reports: list[WarmupReport]) -> set[SharedRecipesOutcome]:
    return {report.shared_recipes.outcome for report in reports if report.shared_recipes}


def _cache_phase(reports: list[WarmupReport]) -> str:
    outcomes = _outcomes(reports)
    if outcomes.intersection(_FILLED):
        return "Filled"
    return "Seeding" if SharedRecipesOutcome.SEEDING in outcomes else "Missed"


def _worst_outcome_reason(reports: list[WarmupReport]) -> str | None:
    """Return the reason from the report with the worst outcome, or None if no report has a reason."""
    shared = [report.shared_recipes for report in reports if report.shared_recipes and report.shared_recipes.reason]
    shared.sort(key=lambda recipes: recipes.outcome is not SharedRecipesOutcome.MISS)
    return next((recipes.reason[:MAX_TEXT] for recipes in shared if recipes.reason), None)


ETA_SECONDS = 10
MAX_COLD_SHAPES = 10
_Shape = tuple[str, tuple[int, int, int]]


def pods_for_warmup_figures(state: State) -> tuple[PodView, ...]:
    """Return the serving pods of the current revision or, if no pod serves, all its pods. The figures describe them."""
    return state.serving_updated_pods or state.updated_pods


def lowest_captured_warmup_percent(rows: Iterable[PodState]) -> CapturedPercent:
    """Return the lowest percentage of captured graphs in `rows` for each phase, or None for a phase without graphs."""
    percents = [row.captured_percent for row in rows]
    return CapturedPercent(
        prompt=min((percent.prompt for percent in percents if percent.prompt is not None), default=None),
        decode=min((percent.decode for percent in percents if percent.decode is not None), default=None),
    )


def recompile_figures(rows: Iterable[PodState], reports: Sequence[WarmupReport]) -> Recompiles:
    """Return the recompilations of the serving pods, with the most frequent cold shapes."""
    batch_counts, compiles = Counter[_Shape](), Counter[_Shape]()
    for cold_shape in (cold_shape for report in reports for cold_shape in report.cold_shapes):
        batch_counts[cold_shape.phase.value, cold_shape.shape] += cold_shape.count
        compiles[cold_shape.phase.value, cold_shape.shape] += cold_shape.compiles
    most_frequent = sorted(batch_counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_COLD_SHAPES]
    return Recompiles(
        since_ready=_capped_sum(row.recompiles_since_ready for row in rows),
        cold_shapes=tuple(
            ColdShape(
                phase=phase, shape=shape, count=_capped_sum([count]), compiles=_capped_sum([compiles[phase, shape]])
            )
            for (phase, shape), count in most_frequent
        ),
    )


def warmup_progress(state: State, rows: Iterable[PodState]) -> WarmupProgress | None:
    """Return the warm-up progress of the slowest pod of the current revision, or None without pods."""
    current_rows = [row for row in rows if row.revision == state.current_name]
    slowest = min(current_rows, key=lambda row: (row.warmup_percent, row.name), default=None)
    if slowest is None:
        return None
    pod = next(pod for pod in state.updated_pods if pod.name == slowest.name)
    return WarmupProgress(percent=slowest.warmup_percent, eta=_eta(pod, state))


def _eta(pod: PodView, state: State) -> str | None:
    """Return the expected end of the warm-up, rounded to 10 s.

    If the end has changed by at most 10 s, the written value stays.
    """
    if pod.report is None or pod.report_received_at is None or pod.report.eta_seconds is None:
        return None
    end = pod.report_received_at + timedelta(seconds=pod.report.eta_seconds)
    previous_eta = state.previous_status.warmup.eta if state.previous_status.warmup else None
    previous_end = parse_timestamp_text(previous_eta)
    if previous_end and abs((previous_end - end).total_seconds()) <= ETA_SECONDS:
        return previous_eta
    # Round the time. Otherwise each report would change the estimate by a second and cause a status write.
    rounded_timestamp = round(end.timestamp() / ETA_SECONDS) * ETA_SECONDS
    return format_timestamp(datetime.fromtimestamp(rounded_timestamp, UTC))


def _capped_sum(counts: Iterable[int]) -> int:
    """Return the sum, limited to the maximum value of a status field."""
    return min(MOST_COUNT, sum(counts))
