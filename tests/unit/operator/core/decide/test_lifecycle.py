"""The life cycle of a resource: first reconcile, Ready, no further changes, scaled to zero, and deleted."""

from gaudi_operator.core.decide import decide
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, served, status


def test_resource_becomes_ready() -> None:
    cluster = served()
    assert status(cluster)["readyReplicas"] == 2
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert condition(cluster, "WarmedUp") == ("True", "WarmedUp")


def test_settled_resource_needs_no_action_and_no_status_write() -> None:
    cluster = served()
    writes = cluster.status_writes
    for _ in range(5):
        plan = cluster.operate()
        assert (plan.actions, plan.events, plan.requeue_after) == ((), (), None)
    assert cluster.status_writes == writes


def test_every_intermediate_status_follows_the_api_conventions() -> None:
    cluster = Cluster(resource(replicas=2))
    for change in (
        {},
        {"model": {"maxModelLen": 512}},
        {"replicas": 0},
        {"engine": {"settings": {"VLLM_USE_V1": "1"}}},
    ):
        cluster.change(**change)
        for _ in range(12):
            cluster.operate()
            assert violations(cluster.resource) == []
            cluster.controllers()
            for name in pod_names(cluster)[:1]:
                cluster.warm(name)
            cluster.kubelet()


def test_deleted_resource_is_left_to_the_garbage_collector() -> None:
    cluster = served()
    cluster.resource["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    cluster.objects.clear()
    assert cluster.operate().actions == ()


def test_zero_replicas_become_ready() -> None:
    cluster = served()
    cluster.change(replicas=0)
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "ScaledToZero")
    assert condition(cluster, "WarmedUp") == ("Unknown", "ScaledToZero")
    assert cluster.kind("Pod") == []


def test_crash_after_any_action_leads_to_the_same_result() -> None:
    for survived in range(8):
        cluster = served()
        cluster.change(model={"maxModelLen": 512})
        plan = decide(cluster.observed(), cluster.defaults)
        for action in plan.actions[:survived]:
            cluster.perform(action)
        cluster.settle()
        assert condition(cluster, "Ready") == ("True", "Serving")
        assert len(cluster.kind("ReplicaSet")) == 1


def test_each_event_is_published_once() -> None:
    cluster = served(replicas=1)
    reasons = [event.reason for event in cluster.events]
    assert reasons == ["RevisionDesired", "WarmedUp", "Ready"]
