"""spec.rollout.revision: pods run the pinned revision, which becomes the newest and keeps its name."""

from gaudi_operator.core.rollout.controller_revision import stored_revisions
from gaudi_operator.core.rollout.desired_revision import describe_missing_pin
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.stories import condition, revisions, served, status


def upgraded_once() -> tuple[Cluster, str, str]:
    """Return a cluster that serves its second revision, and the names of the two revisions."""
    cluster = served()
    (first,) = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    (second,) = revisions(cluster)
    return cluster, first, second


def test_pinned_revision_replaces_the_pods_of_the_spec() -> None:
    cluster, first, _ = upgraded_once()
    cluster.change(rollout={"revision": first})
    cluster.settle()
    assert revisions(cluster) == {first}
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_spec_change_replaces_no_pod_while_pinned() -> None:
    cluster, first, _ = upgraded_once()
    cluster.change(rollout={"revision": first})
    cluster.settle()
    cluster.change(model={"maxModelLen": 768})
    cluster.settle()
    assert revisions(cluster) == {first}
    assert len(cluster.kind("ControllerRevision")) == 2


def test_removed_pin_rolls_out_the_spec() -> None:
    cluster, first, second = upgraded_once()
    cluster.change(rollout={"revision": first})
    cluster.settle()
    cluster.change(rollout={"revision": None})
    cluster.settle()
    assert revisions(cluster) == {second}


def test_pinned_revision_becomes_the_newest() -> None:
    cluster, first, _ = upgraded_once()
    cluster.change(rollout={"revision": first})
    cluster.settle()
    assert next((row["name"], row["number"]) for row in status(cluster)["revisions"]) == (first, 3)


def test_pinned_revision_keeps_its_former_number() -> None:
    cluster, first, _ = upgraded_once()
    cluster.change(rollout={"revision": first})
    cluster.settle()
    kept = next(each for each in stored_revisions(cluster.kind("ControllerRevision")) if each.name == first)
    assert kept.former_numbers == (1,)


def test_unknown_pinned_revision_names_the_kept_ones() -> None:
    cluster, first, second = upgraded_once()
    cluster.change(rollout={"revision": "0123456789"})
    cluster.settle()
    assert revisions(cluster) == {second}
    assert condition(cluster, "Stalled") == ("True", "RevisionNotKept")
    (message,) = {each["message"] for each in status(cluster)["conditions"] if each["type"] == "Stalled"}
    assert message == (
        f"spec.rollout.revision is 0123456789, but this revision is not kept: set it to one of {second}, {first}, or "
        "remove the field to run the spec."
    )


def test_last_serving_revision_is_never_deleted() -> None:
    cluster = served(rollout={"revisionHistoryLimit": 1})
    (first,) = revisions(cluster)
    for length in (512, 768, 1024):
        cluster.change(model={"maxModelLen": length})
        cluster.operate()
    assert first in {row["name"] for row in status(cluster)["revisions"]}


def test_pin_without_kept_revisions_must_be_removed() -> None:
    assert describe_missing_pin(inference(rollout={"revision": "0123456789"}), ()) == (
        "spec.rollout.revision is 0123456789, but this revision is not kept: remove the field to run the spec."
    )
