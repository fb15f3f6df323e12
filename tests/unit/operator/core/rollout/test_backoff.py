"""Back-off of a revision: failures that count, pauses that double, and the last termination that the status keeps."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.api.v1alpha1.status import (
    BackOff,
    GaudiInferenceStatus,
    RevisionPhase,
    RevisionStatus,
    RevisionTermination,
)
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.names import DESIRED_ANNOTATION
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.backoff import BackOffRecord, back_off_records, limit_for_back_off
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from tests.support.builders import Object
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import NOW, resource
from tests.unit.operator.core.stories import condition as shown
from tests.unit.operator.core.stories import pod_names, served, status

NONE = BackOffRecord()
LATER = NOW + timedelta(days=1)


def at(seconds: float) -> str:
    return stamp(NOW + timedelta(seconds=seconds))


def made(name: str, created: int, **fields: object) -> Object:
    """Return a pod of revision `new` that was created `created` seconds after NOW."""
    found = pod(name, revision="new", **fields)  # type: ignore[arg-type]
    found["metadata"]["creationTimestamp"] = at(created)
    return found


def refused(name: str, created: int, ended: int, served: bool = False) -> PodView:
    """Return a pod that its node refused."""
    found = made(name, created, container=None, phase="Failed", conditions=(gate_condition(False),) * served)
    found["status"] |= {"reason": "UnexpectedAdmissionError", "message": "No card.", "startTime": at(ended)}
    return view(found)


def crashed_pod(began: int, ended: int, served: bool = False) -> PodView:
    """Return a pod whose container has ended and restarted."""
    last = {"reason": "Error", "exitCode": 139, "startedAt": at(began), "finishedAt": at(ended)}
    conditions = (gate_condition(False),) * served
    return view(made("c", 0, last_state={"terminated": last}, conditions=conditions))


def ready(since: int, created: int = 0) -> PodView:
    """Return a pod that has been ready since `since` seconds after NOW."""
    conditions = (gate_condition(True, since=at(since)), condition("Ready", True, since=at(since)))
    return view(made("r", created, conditions=conditions), now=LATER)


def status_with_record(known: BackOffRecord) -> GaudiInferenceStatus:
    row = RevisionStatus(
        name="new",
        number=1,
        phase=RevisionPhase.ROLLING_OUT,
        last_termination=known.last_termination,
        back_off=known.back_off,
    )
    return GaudiInferenceStatus(revisions=(row,))


def failure_record(*pods: PodView, known: BackOffRecord = NONE) -> BackOffRecord:
    return back_off_records(pods, status_with_record(known), {}, LATER)["new"]


def attempts(count: int) -> list[PodView]:
    """Return refused pods, each of which was created after the previous one had ended."""
    return [refused(f"p{number:02}", number * 400, number * 400 + 1) for number in range(count)]


def test_first_failure_causes_no_back_off() -> None:
    assert failure_record(refused("a", 0, 1)).back_off == BackOff(failures=1, first=at(1), since=at(1), until=at(1))


def test_second_failure_causes_a_back_off_of_ten_seconds() -> None:
    found = failure_record(refused("a", 0, 1), refused("b", 1, 2))
    assert found.back_off == BackOff(failures=2, first=at(1), since=at(2), until=at(12))


def test_back_off_doubles_up_to_five_minutes() -> None:
    ends = [failure_record(*attempts(count)).back_off for count in range(2, 10)]
    pauses = [(NOW.fromisoformat(each.until) - NOW.fromisoformat(each.since)).total_seconds() for each in ends if each]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


def test_back_off_from_the_future_lasts_five_minutes() -> None:
    year = 365 * 86_400
    pods = [refused("a", 0, year), refused("b", year + 1, year + 2)]
    found = back_off_records(pods, status_with_record(NONE), {}, NOW)["new"]
    later = back_off_records(pods, status_with_record(found), {}, NOW + timedelta(seconds=100))["new"]
    assert [each.back_off and each.back_off.until for each in (found, later)] == [at(300), at(300)]


def test_pods_created_together_count_as_one_attempt() -> None:
    found = failure_record(*(refused(name, 0, ended) for name, ended in (("a", 1), ("b", 1), ("c", 2), ("d", 30))))
    assert found.back_off == BackOff(failures=1, first=at(1), since=at(1), until=at(1))


def test_failure_after_ten_minutes_starts_a_new_count() -> None:
    found = failure_record(refused("a", 0, 1), refused("b", 1, 2), refused("c", 12, 603))
    assert found.back_off == BackOff(failures=1, first=at(603), since=at(603), until=at(603))


def test_failure_within_ten_minutes_continues_the_count() -> None:
    found = failure_record(refused("a", 0, 1), refused("b", 1, 2), refused("c", 12, 602))
    assert found.back_off == BackOff(failures=3, first=at(1), since=at(602), until=at(622))


def test_failure_in_the_same_second_as_readiness_is_not_counted() -> None:
    assert failure_record(refused("a", 0, 1), ready(since=1)).back_off is None


def test_failure_after_readiness_starts_a_new_count() -> None:
    found = failure_record(refused("a", 0, 1), ready(since=1), refused("b", 2, 3))
    assert found.back_off == BackOff(failures=1, first=at(3), since=at(3), until=at(3))


def test_pod_ready_in_the_second_of_failure_resets_the_count() -> None:
    known = failure_record(refused("a", 0, 1), refused("b", 1, 2))
    assert failure_record(ready(since=2), known=known).back_off is None


def test_ready_pod_resets_the_count_and_keeps_the_termination() -> None:
    found = failure_record(refused("a", 0, 1), refused("b", 1, 2), ready(since=3))
    assert (found.back_off, found.last_termination and found.last_termination.pod) == (None, "b")


def test_failures_while_another_pod_serves_are_counted() -> None:
    found = failure_record(ready(since=-100), refused("a", 0, 1), refused("b", 1, 2))
    assert found.back_off == BackOff(failures=2, first=at(1), since=at(2), until=at(12))


def test_failure_of_a_pod_that_served_is_not_counted() -> None:
    assert failure_record(refused("a", 0, 1, served=True)).back_off is None


def test_container_crash_before_serving_is_counted_for_a_running_pod() -> None:
    known = failure_record(crashed_pod(0, 1))
    assert failure_record(crashed_pod(2, 5), known=known).back_off == BackOff(
        failures=2, first=at(1), since=at(5), until=at(15)
    )


def test_container_started_before_the_last_failure_is_not_counted() -> None:
    known = failure_record(refused("a", 0, 1), refused("b", 1, 2))
    assert failure_record(crashed_pod(1, 5), known=known).back_off == known.back_off


def test_container_crash_next_to_serving_pods_causes_no_back_off() -> None:
    assert failure_record(ready(since=-100), crashed_pod(0, 1)).back_off is None


def test_container_restart_after_serving_causes_no_back_off() -> None:
    found = failure_record(crashed_pod(0, 1, served=True))
    assert (found.back_off, found.last_termination) == (
        None,
        RevisionTermination(time=at(1), pod="c", message="Error, exit code 139"),
    )


def test_deleted_pod_is_not_counted() -> None:
    last = {"terminated": {"reason": "Error", "exitCode": 143, "startedAt": at(0), "finishedAt": at(9)}}
    assert failure_record(view(made("a", 0, state=last, terminating=True))) == NONE


def test_refused_pod_is_counted_although_deleted_immediately() -> None:
    gone = made("a", 0, container=None, phase="Failed", terminating=True)
    gone["status"] |= {"reason": "UnexpectedAdmissionError", "startTime": at(1)}
    assert failure_record(view(gone)).back_off == BackOff(failures=1, first=at(1), since=at(1), until=at(1))


def test_count_is_kept_in_the_status_after_pods_are_deleted() -> None:
    known = failure_record(refused("a", 0, 1), refused("b", 1, 2))
    assert failure_record(known=known) == known
    found = failure_record(refused("c", 13, 14), known=known)
    assert found.back_off == BackOff(failures=3, first=at(1), since=at(14), until=at(34))
    assert found.last_termination == RevisionTermination(
        time=at(14), pod="c", message="UnexpectedAdmissionError: No card."
    )


def test_unreadable_times_of_the_status_are_ignored() -> None:
    error = RevisionTermination(time="yesterday", pod="a", message="No card.")
    for pause in (BackOff(failures=2, since="soon", until=at(12)), BackOff(failures=2, since=at(2), until="soon")):
        assert failure_record(known=BackOffRecord(error, pause)) == NONE


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 60)), max_size=8))
def test_recorded_failures_are_not_counted_again(tries: list[tuple[int, int]]) -> None:
    pods = [refused(f"p{number}", start, start + took) for number, (start, took) in enumerate(tries)]
    known = failure_record(*pods)
    assert failure_record(*pods, known=known) == known


def backed_off(until: int = 12) -> dict[str, BackOffRecord]:
    return {"new": BackOffRecord(None, BackOff(failures=2, since=at(2), until=at(until)))}


def desired(pods: Iterable[PodView], seconds: int = 5) -> dict[str, int]:
    return limit_for_back_off({"new": 3, "old": 2}, pods, backed_off(), Deadlines(NOW + timedelta(seconds=seconds)))


def test_no_new_pod_is_created_during_a_back_off() -> None:
    assert desired([]) == {"new": 0, "old": 2}


def test_serving_and_earlier_pods_are_kept_during_a_back_off() -> None:
    assert desired([ready(since=3, created=4), view(made("w", 0))])["new"] == 2


def test_pod_created_immediately_after_a_failure_is_removed() -> None:
    assert desired([view(made("w", 0)), view(made("twin", 3))])["new"] == 1


def test_pod_created_in_the_second_of_failure_stays_if_scheduled() -> None:
    taken, refused_next = view(made("sibling", 2)), view(made("twin", 2, container=None, phase="Pending"))
    assert [desired([each])["new"] for each in (taken, refused_next)] == [1, 0]


def test_pods_are_created_again_after_the_back_off() -> None:
    assert desired([], seconds=12)["new"] == 3


def test_group_with_a_lower_index_is_created_again() -> None:
    leader = made("l", 0)
    leader["metadata"]["labels"] |= {
        "leaderworkerset.sigs.k8s.io/name": "tiny-new",
        "leaderworkerset.sigs.k8s.io/group-index": "1",
    }
    assert desired([view(leader)])["new"] == 2


def test_reconcile_is_scheduled_at_the_end_of_a_back_off() -> None:
    during, after = Deadlines(NOW + timedelta(seconds=5)), Deadlines(NOW + timedelta(seconds=12))
    assert backed_off()["new"].active_back_off(during)
    assert during.requeue_after == pytest.approx(7.1)
    assert backed_off()["new"].active_back_off(after) is None
    assert after.requeue_after is None


def refuse_all(cluster: Cluster, seconds: int) -> None:
    """Advance the clock by `seconds`, while nodes refuse every new pod in the second of its creation."""
    until = cluster.now + timedelta(seconds=seconds)
    while cluster.now < until:
        plan, ended = cluster.operate(), len(failed_pods(cluster))
        cluster.controllers()
        for each in cluster.kind("Pod"):
            if each["status"]["phase"] == "Running" and each["metadata"]["uid"] not in cluster.reports:
                said = {"reason": "UnexpectedAdmissionError", "startTime": stamp(cluster.now)}
                each["status"] = {"phase": "Failed", "conditions": [], **said}
        cluster.kubelet()
        if not plan.actions and len(failed_pods(cluster)) == ended:
            cluster.now = min(until, cluster.now + timedelta(seconds=plan.requeue_after or seconds))


def failed_pods(cluster: Cluster) -> list[Object]:
    return [each for each in cluster.kind("Pod") if each["status"]["phase"] == "Failed"]


def test_immediately_refused_pods_are_created_with_increasing_delays() -> None:
    cluster = Cluster(resource(replicas=1))
    refuse_all(cluster, 600)
    moments = [NOW.fromisoformat(each["metadata"]["creationTimestamp"]) for each in failed_pods(cluster)]
    tries = [after for before, after in pairwise(sorted(moments)) if (after - before).total_seconds() > 5]
    assert len(moments) <= 16, "7 tries, some with a pod that the ReplicaSet makes at once"
    assert [round((after - before).total_seconds(), -1) for before, after in pairwise(tries)] == [20, 40, 80, 160]


def test_message_has_the_last_termination_and_the_next_attempt() -> None:
    cluster = Cluster(resource(replicas=1, rollout={"obstacleDeadlineSeconds": 10}))
    refuse_all(cluster, 20)
    (row,) = status(cluster)["revisions"]
    until, last = row["backOff"]["until"], row["lastTermination"]
    assert shown(cluster, "Stalled") == ("True", "PodsFail")
    message = next(each["message"] for each in status(cluster)["conditions"] if each["type"] == "Stalled")
    assert f" {row['backOff']['failures']} attempts " in message
    assert until in message
    assert last["message"] == "UnexpectedAdmissionError."


def test_refused_revision_serves_when_nodes_accept_pods_again() -> None:
    cluster = Cluster(resource(replicas=2))
    refuse_all(cluster, 100)
    cluster.settle()
    assert status(cluster)["readyReplicas"] == 2
    assert "backOff" not in status(cluster)["revisions"][0]


def test_backed_off_older_revision_regains_its_pods_while_paused() -> None:
    cluster = served(replicas=1)
    (old,) = (each["metadata"]["name"] for each in cluster.kind("ReplicaSet"))
    cluster.change(engine={"env": [{"name": "A", "value": "1"}]}, rollout={"paused": True})
    cluster.delete("Pod", cluster.kind("Pod")[0]["metadata"]["name"])
    refuse_all(cluster, 8)
    held_set = cluster.objects["ReplicaSet", old]
    assert (held_set["spec"]["replicas"], held_set["metadata"]["annotations"][DESIRED_ANNOTATION]) == (0, "1")
    cluster.settle()
    assert (status(cluster)["readyReplicas"], shown(cluster, "Ready")) == (1, ("False", "RolloutPaused"))


def test_deleted_revision_backs_off_and_regains_its_pods() -> None:
    cluster = served(replicas=1)
    (kept,) = cluster.kind("ControllerRevision")
    cluster.change(engine={"settings": {"VLLM_USE_V1": "1"}})
    cluster.settle()
    cluster.delete("ControllerRevision", kept["metadata"]["name"])
    cluster.delete("Pod", cluster.kind("Pod")[0]["metadata"]["name"])
    refuse_all(cluster, 600)
    assert shown(cluster, "Stalled") == ("True", "SettingsWrong")
    assert len(failed_pods(cluster)) <= 16
    cluster.settle()
    (workload,) = cluster.kind("ReplicaSet")
    assert workload["spec"]["replicas"] == 1
    assert DESIRED_ANNOTATION not in workload["metadata"]["annotations"]
    assert not cluster.operate().actions


def test_failures_of_deleted_pods_are_reported_during_a_back_off() -> None:
    cluster = Cluster(resource(replicas=1, rollout={"obstacleDeadlineSeconds": 10}))
    refuse_all(cluster, 20)
    for each in failed_pods(cluster):
        cluster.delete("Pod", each["metadata"]["name"])
    cluster.operate()
    assert shown(cluster, "Stalled") == ("True", "PodsFail")
    (row,) = status(cluster)["revisions"]
    message = next(each["message"] for each in status(cluster)["conditions"] if each["type"] == "Stalled")
    assert message == (
        f"3 attempts in a row ended before a pod served, the last one with pod {row['lastTermination']['pod']}: "
        f"UnexpectedAdmissionError. The operator creates the next pod at {row['backOff']['until']}."
    )


def test_last_termination_keeps_phase_bucket_and_message() -> None:
    cluster = Cluster(resource(replicas=1))
    cluster.operate()
    cluster.controllers()
    (name,) = pod_names(cluster)
    cluster.report(name, Phase.COMPILING, prompt=PhaseProgressReport(planned=8, current=(1, 128, 0)))
    times = {"startedAt": stamp(cluster.now), "finishedAt": at(9)}
    ended = {"reason": "Error", "exitCode": 139, "message": "compiling\nSegmentation fault", **times}
    cluster.objects["Pod", name]["status"]["containerStatuses"][0]["state"] = {"terminated": ended}
    cluster.operate()
    cluster.delete("Pod", name)
    cluster.operate()
    assert status(cluster)["revisions"][0]["lastTermination"] == {
        "time": at(9),
        "pod": name,
        "message": "In phase Compiling at prompt bucket (1, 128, 0): Error, exit code 139: Segmentation fault",
    }
