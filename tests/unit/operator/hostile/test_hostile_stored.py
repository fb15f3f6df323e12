"""Whatever users write to objects, the operator writes a status and the serving pods keep serving."""

from typing import Any

import pytest

from tests.support.builders import Object, copied
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.stories import condition, served, status
from tests.unit.operator.hostile.stored import (
    ANNOTATIONS,
    CONTENTS,
    MOMENTS,
    TEXTS,
    TIMES,
    WRITTEN_MOMENTS,
    Write,
    remembered,
    strange_revision,
    without_revision,
)

SERVED = served(autoscaling={"minReplicas": 1, "maxReplicas": 4})


def reconcile_after(write: Write, value: Any, start: Cluster = SERVED) -> Cluster:
    """Return a serving cluster after a write by another client and three reconciles."""
    cluster = copied(start)
    write(cluster, value)
    for _ in range(3):
        cluster.operate()
    assert violations(cluster.resource) == []
    return cluster


def replicas(cluster: Cluster) -> dict[str, Object]:
    return {each["metadata"]["name"]: each["spec"]["replicas"] for each in cluster.kind("ReplicaSet")}


def moving() -> Cluster:
    """Return a cluster in the middle of a rollout, whose first new pod warms up."""
    cluster = copied(SERVED)
    cluster.change(engine={"maxNumSeqs": 3})
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    return cluster


MOVING = moving()


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20].encode("unicode_escape").decode())
@pytest.mark.parametrize("name", ANNOTATIONS)
def test_foreign_annotation_changes_no_replicas(name: str, text: str) -> None:
    assert replicas(reconcile_after(ANNOTATIONS[name], text)) == replicas(SERVED)
    reconcile_after(ANNOTATIONS[name], text, MOVING)


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
@pytest.mark.parametrize("name", TIMES)
def test_foreign_time_does_not_stop_a_reconcile(name: str, moment: str | None) -> None:
    assert replicas(reconcile_after(TIMES[name], moment)) == replicas(SERVED)
    reconcile_after(TIMES[name], moment, MOVING)


@pytest.mark.parametrize("moment", WRITTEN_MOMENTS)
def test_foreign_status_is_not_trusted(moment: str) -> None:
    found = reconcile_after(remembered, moment)
    assert replicas(found) == replicas(SERVED)
    assert condition(found, "Ready") == ("True", "Serving")
    reconcile_after(remembered, moment, MOVING)


@pytest.mark.parametrize("kind", ["ReplicaSet", "ControllerRevision"])
@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("start", [SERVED, MOVING], ids=["served", "moving"])
def test_removed_revision_label_is_restored(kind: str, paused: bool, start: Cluster) -> None:
    cluster = copied(start)
    cluster.change(rollout={"paused": paused})
    found = reconcile_after(without_revision(kind), None, cluster)
    assert replicas(found) == replicas(start)
    [name] = {status(start)["revision"]["current"]}
    assert f"tiny-{name}" in {each["metadata"]["name"] for each in found.kind(kind)}


@pytest.mark.parametrize("number", [0, 2**63 - 1])
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: str(content)[:80])
def test_foreign_revision_does_not_stop_a_reconcile(content: Any, number: int) -> None:
    def write(cluster: Cluster, _: Any) -> None:
        cluster.objects["ControllerRevision", "tiny-strange"] = strange_revision(content, number)

    assert replicas(reconcile_after(write, None)) == replicas(SERVED)
    changed = reconcile_after(write, None, MOVING)
    assert all(each["revision"] < 2**62 or each["data"] == content for each in changed.kind("ControllerRevision"))


def test_strategy_of_an_older_release_is_refused_with_a_message() -> None:
    def write(cluster: Cluster, value: str) -> None:
        cluster.resource["spec"].setdefault("bucketing", {})["strategy"] = value

    found = reconcile_after(write, "unified")
    assert replicas(found) == replicas(SERVED)
    assert condition(found, "Stalled") == ("True", "SpecUnreadable")
    [stalled] = [each for each in status(found)["conditions"] if each["type"] == "Stalled"]
    assert stalled["message"].startswith("spec.bucketing.strategy ")


def test_autoscaler_reason_may_be_any_text() -> None:
    def write(cluster: Cluster, value: str) -> None:
        [each] = cluster.kind("HorizontalPodAutoscaler")
        each["status"] = {"conditions": [{"type": "AbleToScale", "status": "False", "reason": value, "message": ""}]}

    assert condition(reconcile_after(write, "no word\n"), "AutoscalerActive") == ("False", "NotActive")


@pytest.mark.parametrize("storage", ["1e13", "12E12", "100000000000000000000n"])
def test_pvc_size_may_have_any_form(storage: str) -> None:
    """Users may enlarge the PVC of recipes."""

    def write(cluster: Cluster, value: str) -> None:
        [each] = cluster.kind("PersistentVolumeClaim")
        each["spec"]["resources"]["requests"]["storage"] = value

    cluster = served(recipeCache={"size": "50Gi"})
    [claim] = reconcile_after(write, storage, cluster).kind("PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == storage
