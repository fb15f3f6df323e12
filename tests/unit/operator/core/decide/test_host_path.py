"""Scenarios of decide() for host paths, simulations and unsafe settings that the installation does not allow."""

from dataclasses import replace
from typing import Any

from gaudi_runtime.contract.report import Phase
from tests.support.builders import Object
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status

NO_CLIENT: dict[str, Any] = {"from": "Clients", "clients": []}
ETC: dict[str, Any] = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/etc"}}}
CLAIM: dict[str, Any] = {"source": {"persistentVolumeClaim": {"claimName": "models"}, "hostPath": None}}


def forbid_host_paths(cluster: Cluster) -> None:
    """Change the installation so that it allows no host paths."""
    cluster.defaults = replace(cluster.defaults, allow_host_path=())


def pods_mounting_etc(cluster: Cluster) -> set[str]:
    """Return the names of the pods that mount /etc."""
    return {
        pod["metadata"]["name"]
        for pod in cluster.kind("Pod")
        if any(volume.get("hostPath") == {"path": "/etc"} for volume in pod["spec"]["volumes"])
    }


def stalled(cluster: Cluster) -> tuple[str, str]:
    """Return the reason and the message of the condition `Stalled`."""
    (found,) = [each for each in status(cluster)["conditions"] if each["type"] == "Stalled"]
    return found["reason"], found["message"]


def cluster_moved_to_a_pvc() -> tuple[Cluster, str, str]:
    """Return a cluster whose model moved from /etc to a PVC, and the names of the two revisions."""
    cluster = served(model=ETC)
    (first,) = revisions(cluster)
    cluster.change(model=CLAIM)
    cluster.settle()
    (second,) = revisions(cluster)
    return cluster, first, second


def test_undone_revision_is_refused_and_running_pods_keep_serving() -> None:
    cluster, first, second = cluster_moved_to_a_pvc()
    before = pod_names(cluster)
    forbid_host_paths(cluster)
    cluster.change(model=ETC)
    cluster.settle()
    assert (pod_names(cluster), revisions(cluster)) == (before, {second})
    reason, message = stalled(cluster)
    assert reason == "HostPathNotAllowed"
    assert message.startswith(
        f"The operator creates no more pods of revision {first}: spec.model.source.hostPath /etc "
    )


def test_undone_revision_runs_if_host_paths_are_allowed() -> None:
    cluster, first, _ = cluster_moved_to_a_pvc()
    cluster.change(model=ETC)
    cluster.settle()
    assert revisions(cluster) == {first}


def test_running_revision_is_not_scaled_up() -> None:
    cluster = served(model=ETC)
    before = pod_names(cluster)
    forbid_host_paths(cluster)
    cluster.change(replicas=5)
    cluster.settle()
    assert pod_names(cluster) == before
    assert stalled(cluster)[0] == "HostPathNotAllowed"
    assert status(cluster)["readyReplicas"] == 2


def test_disruption_budget_requires_no_pods_that_are_forbidden() -> None:
    cluster = served(model=ETC)
    forbid_host_paths(cluster)
    cluster.change(replicas=5)
    cluster.settle()
    (budget,) = cluster.kind("PodDisruptionBudget")
    assert budget["spec"]["minAvailable"] == 1


def test_running_revision_is_scaled_down() -> None:
    cluster = served(model=ETC)
    forbid_host_paths(cluster)
    cluster.change(replicas=1)
    cluster.settle()
    assert len(pod_names(cluster)) == 1


def test_paused_rollout_is_not_scaled_up_by_an_older_revision() -> None:
    cluster = served(model=ETC)
    before = pods_mounting_etc(cluster)
    forbid_host_paths(cluster)
    cluster.change(model=CLAIM, rollout={"paused": True}, replicas=5)
    cluster.settle()
    assert pods_mounting_etc(cluster) == before


def partial_rollout_to_a_pvc() -> Cluster:
    """Return a rollout from /etc to a PVC with one old pod left. Pods that start later never become ready."""
    cluster = served(model=ETC)
    (first,) = revisions(cluster)
    cluster.change(model=CLAIM)
    for _ in range(20):
        if len(pods_mounting_etc(cluster)) == 1:
            break
        cluster.operate()
        cluster.controllers()
        for name in pod_names(cluster):
            cluster.warm(name)
        cluster.broken |= revisions(cluster) - {first}
        cluster.kubelet()
    return cluster


def test_failed_revision_is_rolled_back_to_the_remaining_pods() -> None:
    cluster = partial_rollout_to_a_pvc()
    left = pods_mounting_etc(cluster)
    forbid_host_paths(cluster)
    starting = [name for name in pod_names(cluster) if name not in left and not ready(cluster, name)]
    for name in starting:
        cluster.report(name, Phase.COMPILING, since_progress_seconds=1801)
    cluster.settle()
    assert starting
    assert len(left) == 1
    assert pods_mounting_etc(cluster) == left
    assert stalled(cluster)[0] == "HostPathNotAllowed"
    assert status(cluster)["readyReplicas"] == 2


def test_stored_template_is_checked_although_the_spec_is_allowed() -> None:
    cluster, _, second = cluster_moved_to_a_pvc()
    revision: Object = cluster.objects["ControllerRevision", f"tiny-{second}"]
    volumes = revision["data"]["template"]["spec"]["volumes"]
    volumes.append({"name": "etc", "hostPath": {"path": "/etc"}})
    forbid_host_paths(cluster)
    cluster.settle()
    assert pods_mounting_etc(cluster) == set()
    assert condition(cluster, "Stalled") == ("True", "HostPathNotAllowed")


def ready(cluster: Cluster, name: str) -> bool:
    conditions = cluster.objects["Pod", name]["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_forbidden_simulation_keeps_serving_and_is_not_scaled_up() -> None:
    cluster = served(engine={"name": "sim"})
    before = pod_names(cluster)
    cluster.defaults = replace(cluster.defaults, allow_simulation=False)
    cluster.change(replicas=5)
    cluster.settle()
    assert pod_names(cluster) == before
    assert stalled(cluster)[0] == "SimulationNotAllowed"
    assert status(cluster)["readyReplicas"] == 2


def test_published_model_keeps_serving_without_a_new_revision() -> None:
    cluster = served(service={"type": "NodePort"}, networkAccess=NO_CLIENT)
    before = pod_names(cluster)
    cluster.change(networkAccess=None)  # from an operator without this rule
    cluster.settle()
    assert (pod_names(cluster), status(cluster)["readyReplicas"]) == (before, 2)
    assert stalled(cluster)[0] != "PublishedWithoutKey"
    cluster.change(engine={"maxNumSeqs": 3})
    cluster.settle()
    assert (pod_names(cluster), stalled(cluster)[0]) == (before, "PublishedWithoutKey")
    cluster.change(networkAccess=NO_CLIENT)
    cluster.settle()
    assert pod_names(cluster) != before


PRIVILEGED: dict[str, Any] = {"annotations": {"container.apparmor.security.beta.kubernetes.io/runtime": "unconfined"}}


def make_unsafe(cluster: Cluster, revision: str) -> None:
    """Write the data of an older operator into a stored revision."""
    stored: Object = cluster.objects["ControllerRevision", f"tiny-{revision}"]
    stored["data"]["template"]["metadata"]["annotations"] |= PRIVILEGED["annotations"]


def test_unsafe_spec_creates_no_pod() -> None:
    cluster = Cluster(resource(pod=PRIVILEGED))
    assert cluster.operate().actions == ()
    assert condition(cluster, "PlanAccepted") == ("False", "NeedsClass")


def test_unsafe_spec_keeps_serving_pods() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.change(pod=PRIVILEGED)
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Available")[0] == "True"


def test_unsafe_undone_revision_gets_no_pods() -> None:
    cluster, first, second = cluster_moved_to_a_pvc()
    make_unsafe(cluster, first)
    cluster.change(model=ETC)
    cluster.settle()
    assert revisions(cluster) == {second}
    assert stalled(cluster)[0] == "NeedsClass"


def test_unsafe_revision_is_not_scaled_up() -> None:
    cluster = served()
    (only,) = revisions(cluster)
    before = pod_names(cluster)
    make_unsafe(cluster, only)
    cluster.change(replicas=5)
    cluster.settle()
    assert pod_names(cluster) == before


def test_host_path_is_refused_if_the_installation_forbids_it() -> None:
    model = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models"}}}
    cluster = Cluster(resource(model=model))
    cluster.defaults = replace(cluster.defaults, allow_host_path=())
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "HostPathNotAllowed")
