"""A replica over several nodes: a group of the real LeaderWorkerSet controller with ranks of the sim engine."""

import json
from typing import Any

import pytest
import yaml

from demo.client_pod import ClientPod
from demo.install import MODEL_IMAGE, OPERATOR_NAMESPACE, ROOT, RUNTIME_IMAGE, Installation
from demo.resource import Resource, condition, is_ready, is_stalled
from demo.story import CHAT
from localcluster import leader_worker_sets
from tests.e2e.endpoints import EndpointRecorder
from tests.e2e.groups import gates, leader_and_worker, report_of
from tests.e2e.pods import Pods, kill

NAME = "several-nodes"
PATIENCE = 180
SLOW_SECONDS = 8
TIME_SCALE = 0.01


@pytest.fixture(scope="module")
def pods(installed: Installation, namespace: str) -> Pods:
    """The leader and worker pods of the only resource."""
    return Pods(installed, namespace, NAME)


@pytest.fixture(scope="module")
def resource(installed: Installation, namespace: str) -> Resource:
    """The example with a model from an image. A restricted namespace does not allow folders of the node."""
    manifest = yaml.safe_load((ROOT / "examples" / "several-nodes-simulation.yaml").read_text())
    manifest["spec"]["model"]["source"] = {"ociImage": {"reference": MODEL_IMAGE}}
    manifest["spec"]["server"]["image"] = RUNTIME_IMAGE
    manifest["spec"]["rollout"] = {"obstacleDeadlineSeconds": 1}
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    return Resource(str(installed.kubeconfig), namespace, NAME)


@pytest.fixture(scope="module")
def refused(resource: Resource) -> dict[str, Any]:
    """The state of the resource after a reconcile in a cluster without LeaderWorkerSets."""
    return next(state for state in resource.states(PATIENCE) if is_stalled(state, "LeaderWorkerSetMissing"))


@pytest.fixture(scope="module")
def served(installed: Installation, refused: dict[str, Any], resource: Resource) -> Resource:
    """The same resource after the controller was installed and the resource became Ready."""
    leader_worker_sets.install(installed.cluster)
    wait_ready(resource)
    return resource


def wait_ready(resource: Resource) -> None:
    next(state for state in resource.states(PATIENCE) if is_ready(state))


def operator_restarts(installed: Installation) -> dict[str, int]:
    """Return the restart counts of the operator containers, by pod."""
    listed = installed.kubectl("get", "pods", "--namespace", OPERATOR_NAMESPACE, "-o", "json")
    return {
        each["metadata"]["name"]: each["status"]["containerStatuses"][0]["restartCount"]
        for each in json.loads(listed)["items"]
    }


def test_status_names_the_controller_to_install_when_it_is_missing(refused: dict[str, Any], pods: Pods) -> None:
    assert "Install the LeaderWorkerSet controller" in condition(refused, "Stalled")["message"]
    assert pods.now() == []


def test_group_serves_only_through_its_leader(
    installed: Installation, namespace: str, served: Resource, pods: Pods
) -> None:
    leader, worker = leader_and_worker(pods)
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in (leader, worker)]
    assert [each["habana.ai/gaudi"] for each in limits] == ["1", "1"]
    pods.wait_endpoint(leader["metadata"]["name"], ready=True)
    listed = pods.kubectl("get", "endpointslices", "-l", f"kubernetes.io/service-name={NAME}", "-o", "json")
    endpoints = [each for piece in json.loads(listed)["items"] for each in piece["endpoints"]]
    assert [each["targetRef"]["name"] for each in endpoints] == [leader["metadata"]["name"]]
    client = ClientPod(installed.kubectl, namespace, "chat", RUNTIME_IMAGE, CHAT)
    client.start(NAME, NAME, "What is a group?")
    assert "What is a group?" in client.finish()
    assert set(operator_restarts(installed).values()) == {0}, "an operator restarted to serve the new kind"


def test_lost_worker_closes_the_gate_until_its_group_is_warm(
    installed: Installation, served: Resource, pods: Pods
) -> None:
    leader, worker = leader_and_worker(pods)
    states = served.states(PATIENCE)
    next(states)
    with EndpointRecorder(pods) as endpoints:
        kill(installed, worker)
        next(state for state in states if gates(state) == [False])
        next(state for state in states if is_ready(state))
        pods.wait_endpoint(leader["metadata"]["name"], ready=True)
    assert endpoints.left_out == {leader["metadata"]["name"]}
    assert pods.restarts() == {each["metadata"]["uid"]: 1 for each in (leader, worker)}


def test_deleted_worker_is_recreated_with_its_group(served: Resource, pods: Pods) -> None:
    leader, worker = leader_and_worker(pods)
    states = served.states(PATIENCE)
    next(states)
    pods.kubectl("delete", "pod", worker["metadata"]["name"], "--wait=false")
    next(state for state in states if gates(state) == [False])
    next(state for state in states if is_ready(state))
    again, new = leader_and_worker(pods)
    assert again["metadata"]["uid"] == leader["metadata"]["uid"]
    assert new["metadata"]["uid"] != worker["metadata"]["uid"]


def test_group_is_ready_only_when_every_rank_has_every_graph(served: Resource, pods: Pods) -> None:
    """Rank 0 compiles immediately. The group waits for the slow bucket of rank 1."""
    slow = {"onlyRank": "1", "slowAtBucket": "decode:1", "slowSeconds": str(round(SLOW_SECONDS / TIME_SCALE))}
    served.patch({"engine": {"settings": slow}})
    states = served.states(PATIENCE)
    compiling = next(state for state in states if "Compiling" in [pod["phase"] for pod in state["status"]["pods"]])
    assert [pod["gate"] for pod in compiling["status"]["pods"] if pod["phase"] == "Compiling"] == [False]
    next(state for state in states if is_ready(state))
    leader, _ = leader_and_worker(pods)
    report = report_of(pods, leader)
    assert report.elapsed_seconds >= SLOW_SECONDS
    assert (report.prompt.captured, report.decode.captured) == (report.prompt.planned, report.decode.planned)


def test_revision_stalled_on_one_rank_rolls_back_while_others_serve(served: Resource, pods: Pods) -> None:
    leader, _ = leader_and_worker(pods)
    stall = {"onlyRank": "1", "stallAtBucket": "prompt:1", "slowAtBucket": None, "slowSeconds": None}
    served.patch({"engine": {"settings": stall}, "warmup": {"stallTimeoutSeconds": 10}})
    for state in served.states(PATIENCE):
        assert state["status"]["readyReplicas"] == 1
        stalled = condition(state, "Stalled")
        if stalled["reason"] == "RolledBack":
            break
    assert "WarmupStalled" in stalled["message"]
    kept, _ = leader_and_worker(pods)
    assert kept["metadata"]["uid"] == leader["metadata"]["uid"]
    pods.wait_endpoint(leader["metadata"]["name"], ready=True)
