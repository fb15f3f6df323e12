"""The choice of the revision to run after failures, rollbacks and pauses."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, RevisionPhase, Revisions, RevisionStatus
from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.revision_choice import choose_last_good_revision, choose_revision
from gaudi_operator.core.rollout.rollout_plan import plan_rollout
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, inference, resource
from tests.unit.operator.core.states import serving, state_of, warming

FAILURE = Problem("WarmupStalled", "Nothing has moved.")
STALLED = view(pod("n", revision="new"), report(Phase.COMPILING, since_progress_seconds=1801))
OLD = serving("o", "old")


def revision(name: str, number: int, failure: Problem | None = None) -> Revision:
    return Revision(name, number, {}, {}, "", failure)


def written(stable: str | None, *served: str) -> GaudiInferenceStatus:
    """Return a status with this stable revision. The status lists the revisions in `served` as served."""
    rows = tuple(RevisionStatus(name=name, number=1, phase=RevisionPhase.KEPT, served=True) for name in served)
    return GaudiInferenceStatus(revision=Revisions(stable=stable), revisions=rows)


NEW, GOOD, OLDER = revision("new", 3), revision("old", 2), revision("older", 1)
FAILED = revision("new", 3, FAILURE)
ONE = {"replicas": 1}


@pytest.mark.parametrize(
    ("stored", "before", "pods", "found"),
    [
        ([NEW, GOOD, OLDER], written("old"), [], "old"),
        ([NEW, GOOD, OLDER], written("older"), [OLD], "older"),
        ([NEW, GOOD, OLDER], written(None), [OLD], "old"),
        ([NEW, GOOD, OLDER], written(None), [warming("o", "old")], None),
        ([NEW, revision("old", 2, FAILURE), OLDER], written("old"), [OLD], None),
        ([NEW], written("new"), [], None),
        ([NEW, OLDER], written("old"), [], None),
        ([NEW, GOOD, OLDER], written(None, "older"), [], "older"),
        ([NEW, GOOD, OLDER], written("older", "old"), [], "older"),
        ([NEW, GOOD, OLDER], written(None, "old"), [serving("p", "older")], "older"),
        ([NEW, revision("old", 2, FAILURE), OLDER], written(None, "old"), [], None),
    ],
)
def test_last_good_revision_is_stable_or_has_served(
    stored: list[Revision], before: GaudiInferenceStatus, pods: list[PodView], found: str | None
) -> None:
    good = choose_last_good_revision("new", stored, before, pods)
    assert (good.name if good else None) == found


@pytest.mark.parametrize(("pods", "found"), [([OLD], "old"), ([warming("o", "old")], "older"), ([], "older")])
def test_forbidden_revision_is_good_only_while_its_pods_serve(pods: list[PodView], found: str) -> None:
    older = serving("older-pod", "older")
    good = choose_last_good_revision("new", [NEW, GOOD, OLDER], written("old", "old"), [*pods, older], {"old"})
    assert good
    assert good.name == found


def chosen(
    desired: Revision = NEW, stored: tuple[Revision, ...] = (NEW, GOOD), **rollout: Any
) -> tuple[str, bool, str]:
    """Return the revision to run, whether the rollout is paused, and the failure."""
    before = written("old")
    state = state_of((STALLED, OLD), inference=inference(rollout=rollout), stored=stored, previous_status=before)
    choice = choose_revision(state, desired, RoomCriterion(to_come=False))
    return choice.current.name, choice.on_hold, choice.desired.failure.reason if choice.desired.failure else ""


def test_current_failure_causes_a_rollback() -> None:
    assert chosen() == ("old", False, "WarmupStalled")


def test_recorded_failure_keeps_the_rollback() -> None:
    assert chosen(FAILED) == ("old", False, "WarmupStalled")


def test_pause_policy_keeps_the_failed_revision() -> None:
    assert chosen(onFailure="Pause") == ("new", True, "WarmupStalled")


def test_paused_rollout_is_not_rolled_back() -> None:
    assert chosen(paused=True) == ("new", False, "")


def test_failed_revision_is_kept_without_a_good_one() -> None:
    assert chosen(stored=(NEW,)) == ("new", False, "")


def test_serving_revision_is_not_rolled_back_to_itself() -> None:
    state = state_of((STALLED, serving("s", "new")), stored=(NEW,))
    assert choose_revision(state, NEW, RoomCriterion(to_come=False)).desired.failure is None


def test_desired_failed_revision_is_not_a_problem() -> None:
    assert choose_revision(state_of(stored=(FAILED,)), FAILED, RoomCriterion(to_come=False)).problem is None


def test_failed_revision_is_kept_if_the_good_one_was_deleted() -> None:
    assert chosen(FAILED, stored=(FAILED,)) == ("new", False, "WarmupStalled")


def test_reverted_stable_revision_is_not_on_trial() -> None:
    newer = serving("n", "newer")
    before = GaudiInferenceStatus(revision=Revisions(stable="new"))
    state = state_of((STALLED, newer), stored=(revision("newer", 4), NEW), previous_status=before)
    assert choose_revision(state, NEW, RoomCriterion(to_come=False)).current.name == "new"


def test_rollback_skips_a_forbidden_revision() -> None:
    serving_older = serving("o", "older")
    before = written("old")
    forbidden = {"old": Problem("HostPathNotAllowed", "This installation allows no hostPath.")}
    stored = (NEW, GOOD, OLDER)
    state = state_of((STALLED, serving_older), stored=stored, previous_status=before, forbidden=forbidden)
    assert choose_revision(state, NEW, RoomCriterion(to_come=False)).current.name == "older"


@pytest.mark.parametrize(("pods", "is_reported"), [((OLD, STALLED), False), ((OLD,), True)])
def test_rollback_is_reported_after_it_is_complete(pods: tuple[PodView, ...], is_reported: bool) -> None:
    before = written("old")
    sets = tuple(
        {"metadata": {"name": f"tiny-{each.revision}", "labels": {REVISION_LABEL: each.revision}}, "spec": ONE}
        for each in pods
    )
    state = state_of(
        pods,
        inference=inference(replicas=1),
        stored=(FAILED, GOOD),
        previous_status=before,
        observed=Observed(resource(), replica_sets=sets, now=NOW),
    )
    assert (plan_rollout(state, FAILED).problem is not None) is is_reported


@pytest.mark.parametrize(("stable", "trial"), [("new", False), ("old", True)])
def test_stable_revision_is_not_on_trial_again(stable: str, trial: bool) -> None:
    before = GaudiInferenceStatus(revision=Revisions(stable=stable))
    state = state_of((OLD, warming("n", "new")), stored=(NEW, GOOD), previous_status=before)
    assert plan_rollout(state, NEW).rollout.policy.trial is trial
