"""The status of shared recipes, from the reports of pods."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, RecipeCacheState, Revisions
from gaudi_operator.core.status.conditions import FALSE, TRUE
from gaudi_operator.core.status.spec_conditions import judge_spec_settings_effective
from gaudi_operator.core.status.warmup_figures import warmup_recipe_cache_state
from gaudi_runtime.contract.report import SharedRecipesOutcome, SharedRecipesReport, WarmupReport
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import serving, state_of

HIT, SEEDING, SEEDED, MISS = SharedRecipesOutcome
NOTHING = "/recipes has no recipes yet."
SHARED = inference(recipeCache={})


def report_of(outcome: SharedRecipesOutcome, reason: str | None = None) -> WarmupReport:
    return report(shared_recipes=SharedRecipesReport(outcome=outcome, reason=reason))


def state(*reports: WarmupReport, **fields: Any) -> RecipeCacheState | None:
    pods = [serving(f"pod-{number}", said=said) for number, said in enumerate(reports)]
    return warmup_recipe_cache_state(state_of(pods, inference=SHARED, **fields))


def test_recipe_status_is_empty_if_recipes_are_not_shared() -> None:
    assert warmup_recipe_cache_state(state_of([serving(said=report_of(HIT))])) is None


@pytest.mark.parametrize(
    ("outcomes", "phase"),
    [((), "Empty"), ((SEEDING,), "Seeding"), ((SEEDED,), "Filled"), ((HIT,), "Filled"), ((MISS,), "Missed")],
)
def test_outcome_of_a_single_pod_determines_the_phase(outcomes: tuple[SharedRecipesOutcome, ...], phase: str) -> None:
    found = state(*(report_of(outcome) for outcome in outcomes))
    assert found is not None
    assert found.phase == phase


def test_cache_is_filled_if_one_pod_found_recipes() -> None:
    found = state(report_of(MISS, "No lock."), report_of(HIT), report_of(SEEDING, NOTHING))
    assert found == RecipeCacheState(phase="Filled", message="No lock.")


def test_restarted_operator_keeps_the_written_recipe_status() -> None:
    written = RecipeCacheState(phase="Filled", message="No lock.")
    before = GaudiInferenceStatus(revision=Revisions(current="new"), recipe_cache=written)
    assert warmup_recipe_cache_state(state_of([serving()], inference=SHARED, previous_status=before)) == written


def test_recipe_status_of_another_revision_is_ignored() -> None:
    written = RecipeCacheState(phase="Filled", message="No lock.")
    before = GaudiInferenceStatus(revision=Revisions(current="old"), recipe_cache=written)
    assert state(previous_status=before) == RecipeCacheState(phase="Empty")


def test_recipe_status_is_kept_at_zero_replicas() -> None:
    written = RecipeCacheState(phase="Filled", message="No lock.")
    before = GaudiInferenceStatus(revision=Revisions(current="new"), recipe_cache=written)
    assert warmup_recipe_cache_state(state_of([], inference=SHARED, previous_status=before, desired=0)) == written


def test_unusable_recipe_cache_is_reported_as_without_effect() -> None:
    pods = [serving(said=report_of(MISS, "The volume cannot lock files."))]
    verdict = judge_spec_settings_effective(state_of(pods, inference=SHARED))
    assert (verdict.status, verdict.reason) == (FALSE, "SettingsIgnored")
    assert verdict.message == "spec.recipeCache has no effect: The volume cannot lock files."


@pytest.mark.parametrize("outcome", [HIT, SEEDED, SEEDING])
def test_recipe_cache_used_by_one_pod_has_an_effect(outcome: SharedRecipesOutcome) -> None:
    pods = [serving("a", said=report_of(MISS, "No lock.")), serving("b", said=report_of(outcome))]
    assert judge_spec_settings_effective(state_of(pods, inference=SHARED)).status is TRUE
