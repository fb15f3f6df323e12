"""The recipe cache in the status: the effect of shared recipes on the pods of the current revision."""

from gaudi_operator.api.v1alpha1.status import RecipeCacheState
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import RecipeOutcome, WarmupReport

MAX_TEXT = 1024
_FILLED = (RecipeOutcome.HIT, RecipeOutcome.SEEDED)


def recipe_cache_state(state: State) -> RecipeCacheState | None:
    """Return the recipe cache state, or None if recipes are not shared. The written state stays until a pod reports."""
    if state.inference.spec.recipe_cache is None:
        return None
    reports = _recipe_reports(state)
    if not reports:
        is_same_revision = state.previous_status.revision.current == state.current_name
        return (state.previous_status.recipe_cache if is_same_revision else None) or RecipeCacheState(phase="Empty")
    return RecipeCacheState(phase=_cache_phase(reports), message=_worst_outcome_reason(reports))


def recipe_miss_reason(state: State) -> str | None:
    """Return why no pod of the current revision can read or add recipes, or None.

    The result is None if a pod can read or add recipes, or if no pod has reported yet.
    """
    reports = _recipe_reports(state) if state.inference.spec.recipe_cache else []
    return _worst_outcome_reason(reports) if reports and _cache_phase(reports) == "Missed" else None


def _recipe_reports(state: State) -> list[WarmupReport]:
    return [pod.report for pod in state.updated_pods if pod.report and pod.report.shared_recipes]


def _outcomes(reports: list[WarmupReport]) -> set[RecipeOutcome]:
    return {report.shared_recipes.outcome for report in reports if report.shared_recipes}


def _cache_phase(reports: list[WarmupReport]) -> str:
    outcomes = _outcomes(reports)
    if outcomes.intersection(_FILLED):
        return "Filled"
    return "Seeding" if RecipeOutcome.SEEDING in outcomes else "Missed"


def _worst_outcome_reason(reports: list[WarmupReport]) -> str | None:
    """Return the reason from the report with the worst outcome, or None if no report has a reason."""
    shared = [report.shared_recipes for report in reports if report.shared_recipes and report.shared_recipes.reason]
    shared.sort(key=lambda recipes: recipes.outcome is not RecipeOutcome.MISS)
    return next((recipes.reason[:MAX_TEXT] for recipes in shared if recipes.reason), None)
