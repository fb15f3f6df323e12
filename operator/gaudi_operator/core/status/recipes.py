"""What the shared recipes did for pods of the current revision, by their own reports."""

from gaudi_operator.api.v1alpha1.status import RecipeCacheState
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import RecipeOutcome, WarmupReport

MAX_TEXT = 1024
_FILLED = (RecipeOutcome.HIT, RecipeOutcome.SEEDED)


def recipe_cache(s: State) -> RecipeCacheState | None:
    """The state to show; None where recipes are not shared. What is written stays until a pod says something else."""
    if not s.inference.spec.recipe_cache.enabled:
        return None
    reports = _reports(s)
    if not reports:
        same = s.before.revision.current == s.current
        return (s.before.recipe_cache if same else None) or RecipeCacheState(phase="Empty")
    found = max(reports, key=lambda report: (_cached(report), report.recipe_seconds_saved))
    planned = found.prompt.planned + found.decode.planned
    return RecipeCacheState(
        phase=_phase(reports),
        hit_percent=_cached(found) * 100 // planned if planned else None,
        saved_seconds=int(found.recipe_seconds_saved),
        message=_why(reports),
    )


def why_missed(s: State) -> str | None:
    """Why no pod of the current revision can take or add recipes, None where one can or none has said so."""
    reports = _reports(s) if s.inference.spec.recipe_cache.enabled else []
    return _why(reports) if reports and _phase(reports) == "Missed" else None


def _reports(s: State) -> list[WarmupReport]:
    return [pod.report for pod in s.updated if pod.report and pod.report.shared_recipes]


def _outcomes(reports: list[WarmupReport]) -> set[RecipeOutcome]:
    return {report.shared_recipes.outcome for report in reports if report.shared_recipes}


def _phase(reports: list[WarmupReport]) -> str:
    outcomes = _outcomes(reports)
    if outcomes.intersection(_FILLED):
        return "Filled"
    return "Seeding" if RecipeOutcome.SEEDING in outcomes else "Missed"


def _why(reports: list[WarmupReport]) -> str | None:
    """Of a pod that could do the least."""
    shared = [report.shared_recipes for report in reports if report.shared_recipes and report.shared_recipes.reason]
    shared.sort(key=lambda each: each.outcome is not RecipeOutcome.MISS)
    return next((each.reason[:MAX_TEXT] for each in shared if each.reason), None)


def _cached(report: WarmupReport) -> int:
    return report.prompt.cached + report.decode.cached
