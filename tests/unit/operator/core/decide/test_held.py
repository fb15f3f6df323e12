"""Scaling while a rollout is held: paused, on hold after a failure, or with a refused spec.

The stable revision serves in all these cases, even if its pods and its workload are gone.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_runtime.contract.report import Phase
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.group_cluster import GroupCluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import (
    BIGGER,
    canary_of,
    condition,
    failing_upgrade,
    pod_names,
    revisions,
    served,
    status,
)

REFUSED = {"settings": {"VLLM_USE_V1": "1"}}
PAIR = {"engine": {"name": "sim"}, "parallelism": {"tensor": 2, "nodes": 2}}


def pods(cluster: Cluster) -> Counter[str]:
    """Return the number of pods that are not terminating, by revision."""
    alive = (pod["metadata"] for pod in cluster.kind("Pod") if "deletionTimestamp" not in pod["metadata"])
    return Counter(metadata["labels"][REVISION_LABEL] for metadata in alive)


def turns(cluster: Cluster, count: int = 12) -> None:
    """Let the operator and all controllers act. All pods warm up, except pods of broken revisions."""
    for _ in range(count):
        cluster.operate()
        cluster.controllers()
        for pod in cluster.kind("Pod"):
            if "deletionTimestamp" not in pod["metadata"]:
                cluster.warm(pod["metadata"]["name"])
        cluster.kubelet()


def paused_before_the_canary() -> tuple[Cluster, str]:
    cluster = served()
    (good,) = revisions(cluster)
    cluster.change(rollout={"paused": True})
    cluster.change(model=BIGGER)
    return cluster, good


def paused_with_a_canary() -> tuple[Cluster, str]:
    cluster = served()
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    canary_of(cluster, good)
    cluster.change(rollout={"paused": True})
    return cluster, good


def on_hold() -> tuple[Cluster, str]:
    cluster, good, bad = failing_upgrade(onFailure="Pause")
    cluster.broken.add(bad)
    return cluster, good


def refused_during_a_canary() -> tuple[Cluster, str]:
    cluster = served()
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    canary_of(cluster, good)
    cluster.broken = revisions(cluster) - {good}
    cluster.change(engine=REFUSED)
    return cluster, good


def paused_groups() -> tuple[Cluster, str]:
    cluster = GroupCluster(resource(replicas=2, **PAIR))
    cluster.settle()
    (good,) = revisions(cluster)
    cluster.change(rollout={"paused": True})
    cluster.change(model=BIGGER)
    return cluster, good


def paused_in_place() -> tuple[Cluster, str]:
    cluster = served(rollout={"type": "InPlace"})
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    canary_of(cluster, good)
    cluster.change(rollout={"paused": True})
    return cluster, good


Held = Callable[[], tuple[Cluster, str]]
HELD = (
    paused_before_the_canary,
    paused_with_a_canary,
    paused_in_place,
    paused_groups,
    on_hold,
    refused_during_a_canary,
)


@pytest.mark.parametrize("held", HELD)
def test_stable_revision_returns_alone_from_zero(held: Held) -> None:
    cluster, good = held()
    turns(cluster)
    cluster.change(replicas=0)
    turns(cluster)
    assert pods(cluster) == {}
    cluster.change(replicas=2)
    turns(cluster)
    assert set(pods(cluster)) == {good}
    assert status(cluster)["readyReplicas"] == 2
    assert status(cluster)["revision"]["stable"] == good
    assert condition(cluster, "Ready")[0] == "False"


def test_resumed_rollout_continues_after_zero() -> None:
    cluster, good = paused_with_a_canary()
    cluster.change(replicas=0)
    turns(cluster)
    cluster.change(replicas=2)
    turns(cluster)
    cluster.change(rollout={"paused": False})
    cluster.settle()
    assert good not in revisions(cluster)
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_deleted_workload_of_the_stable_revision_is_recreated_while_paused() -> None:
    cluster, good = paused_before_the_canary()
    turns(cluster, 1)
    (workload,) = [each for each in cluster.kind("ReplicaSet") if each["metadata"]["name"] == f"tiny-{good}"]
    template = workload["spec"]["template"]
    cluster.delete("ReplicaSet", f"tiny-{good}")
    turns(cluster)
    assert pods(cluster) == {good: 2}
    assert cluster.objects["ReplicaSet", f"tiny-{good}"]["spec"]["template"] == template


@pytest.mark.parametrize("held", [on_hold, paused_with_a_canary, refused_during_a_canary])
@pytest.mark.parametrize("replicas", [1, 3])
def test_scaling_keeps_the_canary_and_scales_the_stable_revision(held: Held, replicas: int) -> None:
    cluster, good = held()
    (canary,) = [name for name in pod_names(cluster) if not name.startswith(f"tiny-{good}")]
    cluster.change(replicas=replicas)
    turns(cluster, 4)
    assert canary in pod_names(cluster)
    assert pods(cluster)[good] == replicas


def test_scale_up_during_a_canary_is_ready_before_the_canary() -> None:
    cluster = served()
    (good,) = revisions(cluster)
    cluster.change(model=BIGGER)
    canary = canary_of(cluster, good)
    cluster.change(replicas=5)
    for _ in range(6):
        cluster.operate()
        cluster.controllers()
        for name in pod_names(cluster):
            cluster.report(name, Phase.COMPILING if name == canary else Phase.SERVING)
        cluster.kubelet()
    assert pods(cluster)[good] == 5
    assert len(pods(cluster)) == 2
    cluster.operate()
    assert status(cluster)["readyReplicas"] == 5
    cluster.settle()
    assert good not in revisions(cluster)


def test_blocked_upgrade_scales_up_its_serving_revision() -> None:
    cluster = served(rollout={"type": "Surge"})
    (good,) = revisions(cluster)
    cluster.cards = 2
    cluster.change(model=BIGGER)
    canary_of(cluster, good)
    cluster.now += timedelta(seconds=301)
    cluster.operate()
    assert condition(cluster, "Ready")[1] == "UpgradeBlocked"
    cluster.change(replicas=4)
    cluster.operate()
    assert cluster.objects["ReplicaSet", f"tiny-{good}"]["spec"]["replicas"] == 4
