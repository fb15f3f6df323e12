"""Pods that a node refuses or evicts before they serve: their count, and the condition Stalled while they fail."""

from datetime import timedelta
from typing import Any

from gaudi_operator.api.v1alpha1.status import BackOff, RevisionTermination
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.pod_problems import consecutive_failed_pods, failed_pods_problem
from gaudi_operator.core.rollout.backoff import BackOffRecord, add_back_off_to_problem
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import state_of, warming
from tests.unit.operator.core.stories import condition as shown
from tests.unit.operator.core.stories import pod_names, served, status

LOW = "The node was low on resource: memory. Threshold quantity: 100Mi."


def at(seconds: int) -> str:
    return stamp(NOW + timedelta(seconds=seconds))


def evicted(name: str, seconds: int, served: bool = False) -> PodView:
    """Return a pod that its node evicted `seconds` after NOW."""
    found = pod(name, revision="new", container=None, phase="Failed", conditions=(gate_condition(False),) * served)
    found["status"] |= {"reason": "Evicted", "message": LOW, "startTime": at(seconds)}
    return view(found)


def ready(seconds: int) -> PodView:
    """Return a pod that has been ready since `seconds` after NOW."""
    conditions = (gate_condition(True), condition("Ready", True, since=at(seconds)))
    return view(pod("r", revision="new", conditions=conditions))


def test_two_consecutive_failures_are_reported_with_the_last_reason() -> None:
    found = failed_pods_problem([evicted("b", 20), evicted("a", 10)], "new")
    assert found
    assert found.reason == "PodsFail"
    assert found.message.startswith(
        f"2 pods of revision new ended before they served, most recently b: Evicted: {LOW} Ch"
    )


def test_last_of_many_consecutive_failures_is_named() -> None:
    found = failed_pods_problem([evicted(name, seconds) for seconds, name in enumerate("abc")], "new")
    assert found
    assert found.message.startswith("3 pods of revision new ended before they served, most recently c: ")


def test_single_failure_is_not_reported() -> None:
    assert failed_pods_problem([evicted("a", 10)], "new") is None


def test_pod_that_became_ready_resets_the_count() -> None:
    assert consecutive_failed_pods([evicted("a", 10), evicted("b", 20), ready(30)], "new") == []
    assert len(consecutive_failed_pods([evicted("a", 10), evicted("b", 20), ready(5)], "new")) == 2


def test_failure_when_another_pod_became_ready_is_not_counted() -> None:
    assert consecutive_failed_pods([evicted("a", 10), ready(10)], "new") == []


def test_pods_that_served_or_of_other_revisions_are_not_counted() -> None:
    assert consecutive_failed_pods([evicted("a", 10, served=True)], "new") == []
    assert consecutive_failed_pods([evicted("a", 10)], "old") == []


def test_reason_of_the_container_replaces_a_missing_pod_reason() -> None:
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at(40)}}
    found = view(pod(phase="Failed", state=killed))
    assert (found.end_message, found.ended_at) == (
        "OOMKilled, exit code 137: the kernel killed the container because memory ran out.",
        NOW + timedelta(seconds=40),
    )


SOME = Problem("Odd", "Look at it.")
ERROR = RevisionTermination(time=at(-5), pod="gone", message="No card.")


def problem_of_revision(
    problem: Problem | None, *pods: PodView, error: RevisionTermination | None = ERROR
) -> Problem | None:
    """Return the problem of a revision that is in back-off and has two desired pods."""
    state = state_of(pods, failures={"new": BackOffRecord(error, BackOff(failures=3, since=at(-5), until=at(15)))})
    return add_back_off_to_problem(
        problem, state.failures["new"], len(state.updated_pods), state.desired_replicas, state.deadlines
    )


def test_problem_of_a_backing_off_revision_has_the_next_attempt() -> None:
    found = problem_of_revision(SOME, warming())
    assert found
    assert (found.reason, found.message.startswith(SOME.message), at(15) in found.message) == ("Odd", True, True)


def test_revision_with_all_pods_created_has_no_failure_problem() -> None:
    assert problem_of_revision(SOME, warming("b"), warming("c")) == SOME


def test_revision_without_failures_has_no_problem() -> None:
    assert problem_of_revision(None, warming()) is None


def test_revision_without_a_last_termination_has_no_problem() -> None:
    assert problem_of_revision(None, error=None) is None


def fail(cluster: Cluster) -> None:
    """Let the node refuse the newest pod, and reconcile."""
    said = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "startTime": stamp(cluster.now)}
    cluster.objects["Pod", pod_names(cluster)[-1]]["status"] = {"conditions": [], **said}
    cluster.operate()


def scaled_up_without_success(**spec: Any) -> Cluster:
    """Return a cluster with one serving pod whose second pod was refused twice in a row."""
    cluster = served(replicas=1, **spec)
    cluster.change(replicas=2)
    cluster.operate()
    for _ in range(2):
        cluster.controllers()
        fail(cluster)
    return cluster


def test_resource_stalls_while_pods_fail_until_one_serves() -> None:
    cluster = scaled_up_without_success(rollout={"obstacleDeadlineSeconds": 1})
    assert shown(cluster, "Stalled") == ("True", "PodsFail")
    assert "UnexpectedAdmissionError." in next(
        each["message"] for each in status(cluster)["conditions"] if each["type"] == "Stalled"
    )
    cluster.settle()
    assert (shown(cluster, "Stalled"), status(cluster)["readyReplicas"]) == (("False", "NotStalled"), 2)


def test_failed_pods_at_zero_replicas_are_not_a_problem() -> None:
    cluster = served(replicas=1)
    cluster.change(env=[{"name": "LOG_LEVEL", "value": "debug"}])
    cluster.operate()
    for _ in range(2):
        cluster.controllers()
        fail(cluster)
    cluster.change(replicas=0)
    cluster.settle()
    assert shown(cluster, "Ready") == ("True", "ScaledToZero")


def test_failed_pods_above_the_desired_replicas_are_not_a_problem() -> None:
    """The pods of a scale-up failed, and the scale-up is then reverted.

    Now only the serving pod is desired, so the failed pods are not a problem.
    """
    cluster = scaled_up_without_success()
    assert shown(cluster, "Ready") == ("False", "PodsFail")
    cluster.change(replicas=1)
    cluster.operate()
    assert (shown(cluster, "Ready"), shown(cluster, "Stalled")) == (("True", "Serving"), ("False", "NotStalled"))
