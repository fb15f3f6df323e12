"""Pods that their node refuses or evicts before they serve are counted, and the last word of their node is kept."""

from datetime import timedelta

from gaudi_operator.core.pods.problems import failed_in_a_row, failed_pods_problem
from gaudi_operator.core.pods.view import PodView
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.stories import condition as shown
from tests.unit.operator.core.stories import pod_names, served, status

LOW = "The node was low on resource: memory. Threshold quantity: 100Mi."


def at(seconds: int) -> str:
    return stamp(NOW + timedelta(seconds=seconds))


def evicted(name: str, seconds: int, served: bool = False) -> PodView:
    """A pod that its node took away at a moment."""
    found = pod(name, revision="new", container=None, phase="Failed", conditions=(gate_condition(False),) * served)
    found["status"] |= {"reason": "Evicted", "message": LOW, "startTime": at(seconds)}
    return view(found)


def ready(seconds: int) -> PodView:
    """A pod that takes traffic since a moment."""
    conditions = (gate_condition(True), condition("Ready", True, since=at(seconds)))
    return view(pod("r", revision="new", conditions=conditions))


def test_two_in_a_row_are_named_with_the_last_reason() -> None:
    found = failed_pods_problem([evicted("b", 20), evicted("a", 10)], "new")
    assert found
    assert found.reason == "PodsFail"
    assert found.message.startswith(
        f"2 pods of revision new ended before they served, the last one b: Evicted: {LOW} Ch"
    )


def test_one_may_be_chance() -> None:
    assert failed_pods_problem([evicted("a", 10)], "new") is None


def test_pod_that_became_ready_since_ends_the_row() -> None:
    assert failed_in_a_row([evicted("a", 10), evicted("b", 20), ready(30)], "new") == []
    assert len(failed_in_a_row([evicted("a", 10), evicted("b", 20), ready(5)], "new")) == 2


def test_pods_that_served_and_other_revisions_do_not_count() -> None:
    assert failed_in_a_row([evicted("a", 10, served=True)], "new") == []
    assert failed_in_a_row([evicted("a", 10)], "old") == []


def test_container_tells_where_the_pod_does_not() -> None:
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at(40)}}
    found = view(pod(phase="Failed", state=killed))
    assert (found.ended, found.ended_at) == ("OOMKilled, exit code 137.", NOW + timedelta(seconds=40))


def test_resource_stalls_while_pods_fail_until_one_serves() -> None:
    cluster = served(replicas=1)
    cluster.change(replicas=2)
    cluster.operate()
    for _ in range(2):
        cluster.controllers()
        name = pod_names(cluster)[-1]
        said = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "startTime": stamp(cluster.now)}
        cluster.objects["Pod", name]["status"] = {"conditions": [], **said}
        cluster.operate()
    assert shown(cluster, "Stalled") == ("True", "PodsFail")
    assert "UnexpectedAdmissionError." in next(
        each["message"] for each in status(cluster)["conditions"] if each["type"] == "Stalled"
    )
    cluster.settle()
    assert (shown(cluster, "Stalled"), status(cluster)["ready"]) == (("False", "NotStalled"), "2/2")
