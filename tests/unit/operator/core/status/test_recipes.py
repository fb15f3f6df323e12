"""The status of shared recipes, from the reports of pods."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, RecipeCacheState, Revisions
from gaudi_operator.core.status.conditions import FALSE, TRUE
from gaudi_operator.core.status.recipes import recipe_cache_state
from gaudi_operator.core.status.spec_conditions import judge_settings_effective
from gaudi_runtime.contract.report import PhaseProgress, RecipeOutcome, SharedRecipesReport, WarmupReport
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import serving, state_of

HIT, SEEDING, SEEDED, MISS = RecipeOutcome
NOTHING = "/recipes has no recipes yet."
SHARED = inference(recipeCache={"enabled": True})


def report_of(outcome: RecipeOutcome, reason: str | None = None, cached: int = 0, saved: float = 0.0) -> WarmupReport:
    counts = PhaseProgress(planned=8, warmed=8, captured=8, cached=cached)
    shared = SharedRecipesReport(outcome=outcome, reason=reason)
    return report(prompt=counts, decode=counts, shared_recipes=shared, recipe_seconds_saved=saved)


def state(*reports: WarmupReport, **fields: Any) -> RecipeCacheState | None:
    pods = [serving(f"pod-{number}", said=said) for number, said in enumerate(reports)]
    return recipe_cache_state(state_of(pods, inference=SHARED, **fields))


def test_where_recipes_are_not_shared_nothing_is_said() -> None:
    assert recipe_cache_state(state_of([serving(said=report_of(HIT))])) is None


@pytest.mark.parametrize(
    ("outcomes", "phase"),
    [((), "Empty"), ((SEEDING,), "Seeding"), ((SEEDED,), "Filled"), ((HIT,), "Filled"), ((MISS,), "Missed")],
)
def test_one_pod_decides_the_phase(outcomes: tuple[RecipeOutcome, ...], phase: str) -> None:
    found = state(*(report_of(outcome) for outcome in outcomes))
    assert found is not None
    assert found.phase == phase


def test_one_pod_that_found_recipes_is_enough() -> None:
    found = state(report_of(MISS, "No lock."), report_of(HIT, cached=8, saved=99.9), report_of(SEEDING, NOTHING))
    assert found == RecipeCacheState(phase="Filled", hit_percent=100, saved_seconds=99, message="No lock.")


def test_part_of_the_plan_is_a_floored_percentage_of_it() -> None:
    found = state(report_of(HIT, cached=3, saved=5))
    assert found is not None
    assert (found.hit_percent, found.saved_seconds) == (37, 5)


def test_an_operator_that_has_just_started_keeps_what_is_written() -> None:
    written = RecipeCacheState(phase="Filled", hit_percent=100, saved_seconds=9)
    before = GaudiInferenceStatus(revision=Revisions(current="new"), recipe_cache=written)
    assert recipe_cache_state(state_of([serving()], inference=SHARED, before=before)) == written


def test_what_another_revision_wrote_says_nothing_of_this_one() -> None:
    written = RecipeCacheState(phase="Filled", hit_percent=100, saved_seconds=9)
    before = GaudiInferenceStatus(revision=Revisions(current="old"), recipe_cache=written)
    assert state(before=before) == RecipeCacheState(phase="Empty")


def test_scaled_to_zero_keeps_what_is_written() -> None:
    written = RecipeCacheState(phase="Filled", hit_percent=100, saved_seconds=9)
    before = GaudiInferenceStatus(revision=Revisions(current="new"), recipe_cache=written)
    assert recipe_cache_state(state_of([], inference=SHARED, before=before, desired=0)) == written


def test_a_cache_that_no_pod_can_use_has_no_effect() -> None:
    pods = [serving(said=report_of(MISS, "The volume cannot lock files."))]
    verdict = judge_settings_effective(state_of(pods, inference=SHARED))
    assert (verdict.status, verdict.reason) == (FALSE, "SettingsIgnored")
    assert verdict.message == "spec.recipeCache.enabled has no effect: The volume cannot lock files."


@pytest.mark.parametrize("outcome", [HIT, SEEDED, SEEDING])
def test_a_cache_that_is_used_or_filled_has_an_effect(outcome: RecipeOutcome) -> None:
    pods = [serving("a", said=report_of(MISS, "No lock.")), serving("b", said=report_of(outcome))]
    assert judge_settings_effective(state_of(pods, inference=SHARED)).status is TRUE
