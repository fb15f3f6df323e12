"""Every law accepts a correct record and reports a violation for an incorrect record."""

from dataclasses import replace
from typing import Any

import pytest

from tests.laws import endings, readiness, rollout, showing
from tests.laws.history import History, Moment, Runtime
from tests.laws.laws import ALWAYS, IN_THE_END, broken
from tests.unit.laws.records import NEW, OLD, READY, UNREADY, child, history, moment, pod

A, B, C = pod("a"), pod("b"), pod("c", NEW)


def test_correct_record_breaks_no_law() -> None:
    rows = [{"name": each.name, "revision": OLD, "gate": True, "ready": True} for each in (A, B)]
    status = {"pods": rows, "replicas": 2, "readyReplicas": 2, "revision": {"current": OLD, "stable": OLD}}
    good = history(moment(0, A, B, status=status), moment(9, A, B, status=status), works=frozenset({OLD}))
    assert broken(good, tuple(law for law in ALWAYS + IN_THE_END if law is not showing.status_has_its_form)) == []


def test_gate_opened_for_a_cold_instance_breaks_a_law() -> None:
    closed = replace(A, gate=False)
    bad = history(moment(0, closed, warm=frozenset()), moment(5, A, warm=frozenset()))
    assert list(readiness.no_gate_opens_before_capture(bad)) == [
        "5 s: the gate of a opens for a-1, which was never captured"
    ]


def test_gate_kept_open_for_a_cold_instance_breaks_a_law() -> None:
    bad = history(moment(0, A), moment(5, replace(A, judged="a-2")))
    assert list(readiness.no_gate_opens_before_capture(bad))


def test_gate_closed_while_its_instance_serves_breaks_a_law() -> None:
    bad = history(moment(0, A), moment(5, replace(A, gate=False)))
    assert list(readiness.no_gate_closes_without_evidence(bad)) == ["5 s: the gate of a closes although a-1 serves"]


@pytest.mark.parametrize(("mode", "lies"), [("CloseGate", 0), ("Warn", 1)])
def test_gate_of_a_compiling_instance_may_close_if_configured(mode: str, lies: int) -> None:
    fields: dict[str, Any] = {"spec": {"readiness": {"onRecompiles": mode}}, "hot": frozenset({"a-1"})}
    record = history(moment(0, A, **fields), moment(5, replace(A, gate=False), **fields))
    assert len(list(readiness.no_gate_closes_without_evidence(record))) == lies


def test_gate_may_close_after_its_instance_ended() -> None:
    gone = moment(4, A, runtimes={"a": Runtime("a-2", serving=False)}, warm=frozenset())
    assert not list(
        readiness.no_gate_closes_without_evidence(history(moment(0, A), gone, moment(5, replace(A, gate=False))))
    )


def test_ready_with_one_of_two_warm_replicas_breaks_a_law() -> None:
    waiting = moment(0, A, status={"conditions": [UNREADY]})
    assert list(readiness.never_ready_before_captured(history(waiting, moment(5, A)))) == [
        "5 s: Ready is True, although 2 replicas were not warm recently"
    ]


def test_ready_shortly_after_a_pod_was_warm_is_allowed() -> None:
    waiting = moment(0, A, B, status={"conditions": [UNREADY]})
    assert not list(readiness.never_ready_before_captured(history(waiting, moment(1.5, A))))


def test_ready_after_the_loss_of_a_node_is_allowed() -> None:
    waiting = moment(0, A, B, status={"conditions": [UNREADY]})
    lost = {"a": Runtime("a-1", serving=True), "b": Runtime("", serving=False, reachable=False)}
    assert not list(readiness.never_ready_before_captured(history(waiting, moment(5, A, B, runtimes=lost))))


def test_gate_that_outlives_its_container_breaks_a_law() -> None:
    again, warm = {"a": Runtime("a-2", serving=True)}, frozenset({"a-2"})
    left = replace(A, counts=False)
    bad = history(moment(0, A), moment(5, A, runtimes=again, warm=warm), moment(11, left, runtimes=again))
    assert list(readiness.no_gate_outlives_its_container(bad)) == [
        "11 s: the gate of a is open for a-1, which is gone since 5 s"
    ]


@pytest.mark.parametrize(
    "after",
    [
        moment(9.5, replace(A, gate=False)),
        moment(9.5, replace(A, judged="a-2"), runtimes={"a": Runtime("a-2", serving=True)}),
    ],
    ids=["it is closed", "it is judged again"],
)
def test_gate_may_stay_open_until_the_restart_is_observed(after: Moment) -> None:
    gone = moment(5, A, runtimes={"a": Runtime("", serving=False)})
    assert not list(readiness.no_gate_outlives_its_container(history(moment(0, A), gone, after)))


def test_gate_of_an_unreachable_pod_may_stay_open() -> None:
    lost = {"a": Runtime("a-2", serving=False, reachable=False)}
    assert not list(readiness.no_gate_outlives_its_container(history(moment(0, A), moment(5, A, runtimes=lost))))


def test_cold_pod_in_the_endpoints_breaks_a_law() -> None:
    cold = {"a": Runtime("a-2", serving=False)}
    bad = history(moment(0, A), moment(5, A, runtimes=cold), moment(9, A))
    assert list(readiness.no_cold_pod_in_endpoints(bad)) == ["9 s: a is cold and in the endpoints since 5 s"]


def test_wrong_pod_row_of_the_status_breaks_a_law() -> None:
    row = {"name": "a", "revision": OLD, "gate": True, "ready": False}
    shown = {"pods": [row], "replicas": 1, "readyReplicas": 0}
    bad = history(moment(0, A), moment(9, A, status=shown), end=10)
    (found,) = showing.status_tells_the_truth_about_pods(bad)
    assert found.startswith("9 s: status.pods reports ('old', True, False) for a, but recent states are ")


@pytest.mark.parametrize(("ready", "lies"), [(False, 0), (True, 1)])
def test_row_of_a_deleted_pod_may_show_an_open_gate(ready: bool, lies: int) -> None:
    row = {"name": "a", "revision": OLD, "gate": True, "ready": ready}
    shown = {"pods": [row], "replicas": 1, "readyReplicas": int(ready)}
    waits, left = pod("a", gate=False, ready=False), pod("a", gate=False, ready=False, counts=False)
    record = history(moment(0, waits), moment(9, left), moment(9.5, left, status=shown), end=10)
    assert len(list(showing.status_tells_the_truth_about_pods(record))) == lies


def test_status_count_different_from_its_rows_breaks_a_law() -> None:
    bad = history(moment(0, A), moment(9, A, status={"replicas": 7}), end=10)
    assert list(showing.status_tells_the_truth_about_pods(bad)) == ["9 s: status.replicas is 7, and 0 pods are listed"]


def test_pod_missing_from_the_status_breaks_a_law() -> None:
    assert "at rest" in next(showing.status_tells_the_truth_about_pods(history(moment(0, A))))


@pytest.mark.parametrize(("since", "lies"), [(39, 0), (42, 1)])
def test_stalled_without_room_before_the_deadline_breaks_a_law(since: int, lies: int) -> None:
    stalled = {"type": "Stalled", "status": "True", "reason": "Unschedulable"}
    spec = {"rollout": {"obstacleDeadlineSeconds": 60}}
    waiting: dict[str, Any] = {"runtimes": {"a": Runtime("a-1", serving=True)}, "spec": spec}
    shown = moment(100, A, B, status={"conditions": [UNREADY, stalled]}, **waiting)
    record = history(moment(0, A, B), moment(since, A, B, **waiting), shown)
    assert len(list(showing.stalled_for_room_only_after_the_deadline(record))) == lies


@pytest.mark.parametrize(("seconds", "lies"), [(0.2, 0), (1, 1)])
def test_stalled_may_ignore_a_state_that_no_controller_observes(seconds: float, lies: int) -> None:
    stalled = {"type": "Stalled", "status": "True", "reason": "PodsRefused"}
    spec = {"rollout": {"obstacleDeadlineSeconds": 60}}
    missing: dict[str, Any] = {"replica_sets": {OLD: 2, NEW: 1}, "spec": spec}
    fewer = moment(70, A, B, replica_sets={OLD: 2, NEW: 0}, spec=spec)
    shown = moment(100, A, B, status={"conditions": [UNREADY, stalled]}, **missing)
    record = history(moment(0, A, B, **missing), fewer, moment(70 + seconds, A, B, **missing), shown)
    assert len(list(showing.stalled_for_room_only_after_the_deadline(record))) == lies


def test_blocked_upgrade_after_one_old_pod_was_removed_is_allowed() -> None:
    stalled = {"type": "Stalled", "status": "True", "reason": "UpgradeBlocked"}
    runtimes = {name: Runtime(f"{name}-1", serving=True) for name in ("a", "b")}
    fields: dict[str, Any] = {"runtimes": runtimes, "spec": {"rollout": {"obstacleDeadlineSeconds": 60}}}
    lowered = moment(90, A, B, C, replica_sets={OLD: 1, NEW: 1}, **fields)
    shown = moment(100, A, C, status={"conditions": [UNREADY, stalled]}, **fields)
    record = history(moment(0, A, B, C, replica_sets={OLD: 2, NEW: 1}, **fields), lowered, shown)
    assert not list(showing.stalled_for_room_only_after_the_deadline(record))


def test_nonconforming_status_breaks_a_law() -> None:
    bad = history(moment(0), moment(9, status={"conditions": []}))
    assert any("C3" in found for found in showing.status_has_its_form(bad))


def test_child_of_another_owner_breaks_a_law() -> None:
    bad = history(moment(0), moment(9, children=(child("yours"),)))
    assert list(endings.every_child_is_owned(bad)) == ["9 s: Service tiny has the owner yours"]


def test_write_without_the_lease_breaks_a_law() -> None:
    bad = history(moment(0), trespasses=[(5.0, "second")])
    found = list(endings.only_the_holder_of_the_lease_writes(bad))
    assert found == ["5 s: second writes without holding the Lease"]


def test_unfinished_rollout_breaks_a_law() -> None:
    bad = history(moment(0, status={"conditions": [UNREADY]}))
    assert list(endings.every_rollout_ends(bad)) == ["the rollout has not ended: WarmingUp, They warm up."]


@pytest.mark.parametrize(
    "condition",
    [READY, {**UNREADY, "reason": "RolloutPaused"}, {**UNREADY, "type": "Stalled", "status": "True"}],
    ids=["done", "paused", "given up"],
)
def test_finished_rollout_breaks_no_law(condition: dict[str, str]) -> None:
    assert not list(endings.every_rollout_ends(history(moment(0, status={"conditions": [condition]}))))


def test_working_revision_that_does_not_serve_breaks_a_law() -> None:
    bad = history(moment(0, A, status={"revision": {"current": OLD}}), works=frozenset({OLD}))
    assert list(endings.working_revision_serves(bad)) == [
        "1 of 2 pods of old serve, although nothing blocks the others"
    ]


def test_failed_revision_that_still_runs_breaks_a_law() -> None:
    accepted = {"type": "PlanAccepted", "status": "True"}
    status = {"revision": {"current": NEW, "stable": OLD}, "conditions": [UNREADY, accepted]}
    tried = moment(0, A, status=status, replica_sets={OLD: 2, NEW: 1})
    bad = history(tried, works=frozenset({OLD}), fails=frozenset({NEW}))
    assert list(endings.failed_revision_is_given_up(bad)) == ["new fails and still runs, although old works"]


def test_failing_revision_breaks_a_law_only_if_it_runs() -> None:
    blocked = {**UNREADY, "reason": "UpgradeBlocked"}
    accepted = {"type": "PlanAccepted", "status": "True"}
    status = {"revision": {"current": NEW, "stable": OLD}, "conditions": [blocked, accepted]}
    fields: dict[str, Any] = {"status": status, "replica_sets": {OLD: 2, NEW: 1}}
    known: dict[str, Any] = {"works": frozenset({OLD}), "fails": frozenset({NEW})}
    waiting = history(moment(0, A, B, runtimes={}, **fields), **known)
    running = history(moment(0, A, C, runtimes={"c": Runtime("c-1", serving=False)}, **fields), **known)
    assert not list(endings.failed_revision_is_given_up(waiting))
    assert list(endings.failed_revision_is_given_up(running))


@pytest.mark.parametrize(("asked", "lies"), [("Surge", 0), ("SurgeThenInPlace", 1), (None, 1)])
def test_blocked_upgrade_despite_allowed_unavailability_breaks_a_law(asked: str | None, lies: int) -> None:
    blocked = {**UNREADY, "reason": "UpgradeBlocked"}
    spec = {"rollout": {"type": asked}}
    record = history(moment(0, A, B, status={"conditions": [blocked]}, spec=spec))
    assert len(list(endings.upgrade_is_blocked_only_by_its_minimum(record))) == lies


def test_writes_without_changes_break_a_law() -> None:
    assert list(endings.operator_is_idle_at_the_end(history(moment(0), writes=[980.0, 990.0], end=1000)))


def test_writes_during_foreign_changes_are_allowed() -> None:
    assert not list(endings.operator_is_idle_at_the_end(history(moment(0), writes=[990.0], others=[985.0], end=1000)))


@pytest.mark.parametrize(
    "left",
    [
        {"replica_sets": {OLD: 2, NEW: 0}},
        {"children": tuple(child("mine", "ConfigMap") for _ in range(2))},
        {"children": tuple(child("mine", "ControllerRevision") for _ in range(9))},
    ],
    ids=["a ReplicaSet", "a ConfigMap", "revisions"],
)
def test_leftover_objects_break_a_law(left: dict[str, object]) -> None:
    bad = history(moment(0, A, B, status={"revision": {"current": OLD}}, **left))
    assert len(list(endings.nothing_is_left_over(bad))) == 1


def test_reaction_deadline_is_extended_by_blind_periods_and_waits() -> None:
    record: History = history(moment(0), blind=[(10.0, 20.0)], waits=[(21.0, 23.0), (40.0, 50.0)])
    assert (record.reacted_by(5.0), record.reacted_by(9.0), record.reacted_by(24.0)) == (7.0, 25.0, 26.0)


def test_consecutive_violations_are_reported_once() -> None:
    record: History = history(moment(0, A), moment(2, A, B), moment(4, B), moment(6, A, B), end=9)
    assert sorted(record.spells(lambda moment: moment.pods)) == [("a", 0, 4), ("a", 6, 9), ("b", 2, 9)]


def test_observation_window_is_extended_by_all_blind_periods() -> None:
    record: History = history(moment(0), blind=[(10.0, 20.0), (21.0, 30.0)])
    assert (record.seen_from(31.0), record.seen_from(40.0), record.seen_from(9.0)) == (8.0, 38.0, 7.0)


def failing(seconds: float) -> History:
    """Return a record in which a pod fails every `seconds` seconds and a new pod replaces the failed pod."""
    made = [pod(f"p{number}", counts=False, ready=False, gate=False, judged=None, failed=True) for number in range(40)]
    return history(*(moment(seconds * number, *made[: number + 1]) for number in range(40)))


def test_pods_failing_each_second_break_a_law() -> None:
    assert list(rollout.no_pods_are_created_in_a_hot_loop(failing(1))) == [
        "30 s: 31 pods of old failed within 30 s, 2 are desired"
    ]


def test_pods_failing_rarely_break_no_law() -> None:
    assert not list(rollout.no_pods_are_created_in_a_hot_loop(failing(2)))


def test_hot_loop_while_the_operator_is_blind_breaks_no_law() -> None:
    record = replace(failing(1), blind=[(0.0, 40.0)])
    assert not list(rollout.no_pods_are_created_in_a_hot_loop(record))
