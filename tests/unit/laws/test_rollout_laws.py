"""The laws of rollouts accept a correct record and report a violation for an incorrect record."""

from dataclasses import replace
from typing import Any

import pytest

from tests.laws import rollout
from tests.laws.history import Child, History, Moment, Pod, Runtime
from tests.unit.laws.records import NEW, OLD, history, moment, pod

A, B, C = pod("a"), pod("b"), pod("c", NEW)


def test_removed_available_pod_breaks_a_law() -> None:
    bad = history(moment(0, A, B), moment(9, A))
    assert list(rollout.never_fewer_available_than_promised(bad)) == [
        "9 s: b were removed, and 1 of 2 guaranteed pods serve"
    ]


def test_pod_removed_by_a_fault_breaks_no_law() -> None:
    assert not list(
        rollout.never_fewer_available_than_promised(history(moment(0, A, B), moment(9, A), taken=[(8.5, "b")]))
    )


def test_removal_of_a_pod_just_ready_breaks_no_law() -> None:
    just = history(moment(0, A), moment(8.5, A, B), moment(9, A))
    assert not list(rollout.never_fewer_available_than_promised(just))


def test_removal_of_a_pod_ready_for_long_breaks_a_law() -> None:
    bad = history(moment(0, A), moment(1, A, B), moment(9, A))
    assert list(rollout.never_fewer_available_than_promised(bad))


def test_fewer_pods_long_after_a_fault_break_a_law() -> None:
    bad = history(moment(0, A, B), moment(9, A), taken=[(1.0, "b")])
    assert list(rollout.never_fewer_available_than_promised(bad))


def test_fewer_pods_after_a_fault_are_allowed_while_blind() -> None:
    blind = history(moment(0, A, B), moment(9, A), taken=[(1.0, "b")], blind=[(0.5, 9.5)])
    assert not list(rollout.never_fewer_available_than_promised(blind))


def history_without_room(seconds: int, *left: Pod) -> History:
    """Return a record of two serving pods and an unschedulable new one; after `seconds`, only `left` serve."""
    short: dict[str, Any] = {
        "spec": {"rollout": {"surgeTimeoutSeconds": 30}},
        "replica_sets": {OLD: 2, NEW: 1},
        "runtimes": {"a": Runtime("a-1", serving=True), "b": Runtime("b-1", serving=True)},
    }
    seen = moment(1, A, B, replace(C, gate=False, ready=False), **short)
    return history(moment(0, A, B), seen, replace(seen, at=seconds), moment(seconds + 1, *left, **short))


@pytest.mark.parametrize(("seconds", "left", "lies"), [(40, (A,), 0), (20, (A,), 1), (40, (), 1)])
def test_one_pod_is_replaced_in_place_after_the_surge_timeout(seconds: int, left: tuple[Pod, ...], lies: int) -> None:
    assert len(list(rollout.never_fewer_available_than_promised(history_without_room(seconds, *left)))) == lies


@pytest.mark.parametrize(("kept", "lies"), [({OLD: 2, NEW: 0}, 0), ({OLD: 2}, 1)])
def test_in_place_replacement_is_allowed_only_during_its_rollout(kept: dict[str, int], lies: int) -> None:
    first, *answered, last = history_without_room(40, A).moments
    between = replace(first, at=41, resource=last.resource, replica_sets=kept, runtimes=last.runtimes)
    record = history(first, *answered, between, replace(between, at=45), replace(last, at=50))
    assert len(list(rollout.never_fewer_available_than_promised(record))) == lies


def test_more_pods_than_replicas_and_surge_break_a_law() -> None:
    bad = history(moment(0), moment(9, replica_sets={OLD: 2, NEW: 2}))
    assert list(rollout.never_more_pods_than_allowed(bad)) == ["9 s: 4 pods desired, 0 terminating, 3 allowed"]


def test_pods_return_while_a_spec_with_fewer_is_refused() -> None:
    refused = {"conditions": [{"type": "PlanAccepted", "status": "False", "reason": "SettingsWrong"}]}
    fields: dict[str, Any] = {"spec": {"replicas": 0}, "status": refused}
    moments = (moment(at, **fields, replica_sets={OLD: count}) for at, count in enumerate((2, 1, 2)))
    assert not list(rollout.never_more_pods_than_allowed(history(*moments)))


def test_pods_return_after_a_back_off_despite_a_lower_surge() -> None:
    spec = {"rollout": {"type": "InPlace"}}
    before = moment(0, A, B, spec=spec, replica_sets={OLD: 1, NEW: 1}, delayed=1)
    assert not list(rollout.never_more_pods_than_allowed(history(before, moment(9, spec=spec, replica_sets={OLD: 3}))))


def test_new_pod_before_the_old_one_ended_breaks_a_law() -> None:
    spec = {"rollout": {"type": "InPlace"}}
    ending = replace(B, counts=False)
    before = moment(0, A, ending, spec=spec, replica_sets={OLD: 1})
    bad = history(before, moment(9, A, ending, spec=spec, replica_sets={OLD: 1, NEW: 1}))
    assert list(rollout.never_more_pods_than_allowed(bad)) == ["9 s: 2 pods desired, 1 terminating, 2 allowed"]


def test_second_pod_before_the_canary_is_ready_breaks_a_law() -> None:
    bad = history(moment(0, A, B, replica_sets={OLD: 2, NEW: 1}), moment(9, A, B, replica_sets={OLD: 1, NEW: 2}))
    assert list(rollout.canary_is_alone(bad)) == ["9 s: 2 pods of new are desired before its canary serves"]


def test_second_pod_after_the_canary_is_ready_is_allowed() -> None:
    good = history(moment(0, A, B, C, replica_sets={OLD: 2, NEW: 1}), moment(9, A, C, replica_sets={OLD: 1, NEW: 2}))
    assert not list(rollout.canary_is_alone(good))


def test_last_good_revision_grows_beside_a_failed_canary() -> None:
    moments = (
        moment(at, C, failed=frozenset({NEW}), replica_sets={OLD: count, NEW: 1}) for at, count in ((0, 1), (9, 3))
    )
    assert not list(rollout.canary_is_alone(history(*moments)))


def test_failed_revision_with_new_pods_breaks_a_law() -> None:
    failed, status = frozenset({NEW}), {"revision": {"stable": OLD}}
    kept = (Child("ControllerRevision", f"tiny-{OLD}", "mine"),)
    before = moment(0, A, B, failed=failed, status=status, children=kept)
    more = {OLD: 2, NEW: 1}
    bad = history(before, moment(9, A, B, failed=failed, status=status, replica_sets=more, children=kept))
    assert list(rollout.no_failed_revision_is_tried_again(bad)) == ["9 s: revision new has failed and gets more pods"]
    fair = history(before, moment(9, A, B, failed=failed, status=status, replica_sets=more))
    assert not list(rollout.no_failed_revision_is_tried_again(fair)), "the good one was deleted by hand"


@pytest.mark.parametrize(
    ("paused", "stable", "row", "lies"),
    [(True, OLD, {}, 1), (False, OLD, {}, 0), (True, NEW, {}, 0), (True, OLD, {"backOff": {}}, 0)],
)
def test_unapproved_start_while_paused_breaks_a_law(paused: bool, stable: str, row: dict[str, Any], lies: int) -> None:
    fields: dict[str, Any] = {
        "spec": {"rollout": {"paused": paused}},
        "status": {"revision": {"stable": stable}, "revisions": [{"name": NEW, **row}]},
        "children": (Child("ControllerRevision", f"tiny-{stable}", "mine"),),
    }
    record = history(moment(0, replica_sets={NEW: 0}, **fields), moment(9, replica_sets={NEW: 2}, **fields))
    assert len(list(rollout.no_unapproved_revision_starts_while_paused(record))) == lies


def test_deletion_cost_without_a_scale_down_breaks_a_law() -> None:
    named = replace(A, removed_first=True)
    bad = history(moment(0, A, B), moment(5, named, B), moment(7.5, A, B))
    assert list(rollout.no_pod_keeps_a_deletion_cost_without_need(bad)) == [
        "8 s: a has the lowest cost since 5 s, and its revision needs all pods"
    ]


@pytest.mark.parametrize(
    "after",
    [
        moment(7, A, B),
        moment(7, replace(A, removed_first=True), B, replica_sets={OLD: 1}),
        moment(7, replace(A, removed_first=True, counts=False), B),
    ],
    ids=["it is taken back", "one has to go", "it has gone"],
)
def test_deletion_cost_may_stay_until_the_next_reconcile(after: Moment) -> None:
    named = moment(5, replace(A, removed_first=True), B)
    assert not list(rollout.no_pod_keeps_a_deletion_cost_without_need(history(moment(0, A, B), named, after)))
