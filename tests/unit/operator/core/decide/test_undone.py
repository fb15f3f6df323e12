"""A spec that is changed back: pods run the stored revision, which becomes the newest and keeps its name."""

from dataclasses import replace

from gaudi_operator.core.rollout.controller_revision import read_controller_revisions
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.stories import condition, revisions, served, status


def undone() -> tuple[Cluster, str]:
    """Return a cluster whose spec was changed and changed back, and the name of the first revision."""
    cluster = served()
    (first,) = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    cluster.change(model={"maxModelLen": 256})
    cluster.settle()
    return cluster, first


def test_pods_run_the_stored_revision_of_a_spec() -> None:
    cluster, first = undone()
    assert revisions(cluster) == {first}
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_undone_revision_becomes_the_newest() -> None:
    cluster, first = undone()
    assert next((row["name"], row["number"]) for row in status(cluster)["revisions"]) == (first, 3)


def test_undone_revision_keeps_its_former_number() -> None:
    cluster, first = undone()
    kept = next(each for each in read_controller_revisions(cluster.kind("ControllerRevision")) if each.name == first)
    assert kept.former_numbers == (1,)


def test_undone_revision_keeps_its_stored_template() -> None:
    cluster = served()
    (first,) = revisions(cluster)
    record = cluster.objects["ControllerRevision", f"tiny-{first}"]["data"]["template"]["spec"]
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    cluster.defaults = replace(cluster.defaults, runtime_image="runtime:newer")
    cluster.change(model={"maxModelLen": 256})
    cluster.settle()
    images = {pod["spec"]["containers"][0]["image"] for pod in cluster.kind("Pod")}
    assert images == {record["containers"][0]["image"]}


def test_last_serving_revision_is_never_deleted() -> None:
    cluster = served(rollout={"revisionHistoryLimit": 1})
    (first,) = revisions(cluster)
    for length in (512, 768, 1024):
        cluster.change(model={"maxModelLen": length})
        cluster.operate()
    assert first in {row["name"] for row in status(cluster)["revisions"]}
