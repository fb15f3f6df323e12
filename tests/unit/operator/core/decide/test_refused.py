"""Scenarios of decide() for a refused spec, which never affects serving pods."""

from gaudi_operator.core.actions import SetGate
from tests.support.builders import copied
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, served, status

DEPRECATED = {"settings": {"VLLM_USE_V1": "1"}}
"""A spec that every release refuses."""


def test_refused_spec_creates_no_pod() -> None:
    cluster = Cluster(resource(engine=DEPRECATED))
    assert cluster.operate().actions == ()
    assert condition(cluster, "PlanAccepted") == ("False", "SettingsWrong")
    assert condition(cluster, "Stalled") == ("True", "SettingsWrong")


def test_refused_spec_keeps_serving_pods() -> None:
    cluster = served()
    before = copied(cluster.kind("Pod"))
    cluster.change(engine=DEPRECATED)
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    assert cluster.kind("Pod") == before
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")
    assert condition(cluster, "Ready") == ("False", "SettingsWrong")


def test_refused_spec_pauses_a_rollout() -> None:
    cluster = served()
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    cluster.controllers()
    cluster.change(engine=DEPRECATED)
    running = pod_names(cluster)
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
        for name in pod_names(cluster):
            cluster.warm(name)
        cluster.kubelet()
    assert pod_names(cluster) == running
    assert status(cluster)["readyReplicas"] == 3


def test_refused_spec_still_scales_and_restores_serving_pods() -> None:
    cluster = served()
    cluster.change(engine=DEPRECATED, replicas=3)
    cluster.delete("Service", "tiny")
    cluster.settle()
    assert status(cluster)["readyReplicas"] == 3
    assert len(cluster.kind("Service")) == 1


def test_workload_of_a_deleted_revision_is_unchanged() -> None:
    cluster = served()
    cluster.change(engine=DEPRECATED)
    del cluster.objects["ControllerRevision", cluster.kind("ControllerRevision")[0]["metadata"]["name"]]
    (workload,) = cluster.kind("ReplicaSet")
    workload["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    assert cluster.operate().actions == ()


def test_refused_spec_still_closes_the_gate_of_a_restarted_container() -> None:
    cluster = served()
    cluster.change(engine=DEPRECATED)
    cluster.restart(pod_names(cluster)[0])
    gates = [action for action in cluster.operate().actions if isinstance(action, SetGate)]
    assert [gate.open for gate in gates] == [False]
