"""Scenarios of decide() for the ConfigMap that names the kept revisions to pods with shared recipes."""

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_runtime.contract.config import KeptRevisions
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.stories import served

SHARED = {"size": "5Gi"}


def published_revisions(cluster: Cluster) -> KeptRevisions | None:
    """Return the kept revisions in the ConfigMap; None if there is no ConfigMap."""
    found = cluster.objects.get(("ConfigMap", "tiny-recipes"))
    return KeptRevisions.model_validate_json(found["data"]["kept.json"]) if found else None


def stored(cluster: Cluster) -> set[str]:
    """Return the names of the revisions in the history."""
    return {each["metadata"]["labels"][REVISION_LABEL] for each in cluster.kind("ControllerRevision")}


def test_config_map_has_the_complete_history_and_its_resource() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    found = published_revisions(cluster)
    assert found is not None
    assert (found.resource, set(found.revisions), len(found.revisions)) == ("uid-of-tiny", stored(cluster), 2)


def test_deleted_revision_is_removed_from_the_config_map() -> None:
    cluster = served(recipeCache=SHARED, rollout={"revisionHistoryLimit": 1})
    for length in (512, 768, 1024):
        cluster.change(model={"maxModelLen": length})
        cluster.settle()
    found = published_revisions(cluster)
    assert found is not None
    assert set(found.revisions) == stored(cluster)
    assert len(found.revisions) == 2


def test_revision_and_its_entry_are_deleted_in_one_reconcile() -> None:
    cluster = served(recipeCache=SHARED, replicas=0, rollout={"revisionHistoryLimit": 1})
    for length in (512, 768):
        cluster.change(model={"maxModelLen": length})
        cluster.operate()
    cluster.settle()
    cluster.change(model={"maxModelLen": 1024})
    while len(stored(cluster)) != 2:
        cluster.operate()
    found = published_revisions(cluster)
    assert found is not None
    assert set(found.revisions) == stored(cluster)


def test_new_revision_is_published_before_its_first_pod() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    found = published_revisions(cluster)
    assert found is not None
    assert set(found.revisions) == stored(cluster)
    assert len(found.revisions) == 2


def test_config_map_is_not_rewritten_without_changes() -> None:
    cluster = served(recipeCache=SHARED)
    assert cluster.operate().actions == ()


def test_foreign_change_of_the_config_map_is_reverted() -> None:
    cluster = served(recipeCache=SHARED)
    before = published_revisions(cluster)
    cluster.objects["ConfigMap", "tiny-recipes"]["data"] = {"kept.json": "{}"}
    cluster.operate()
    assert published_revisions(cluster) == before


def test_config_map_is_kept_at_zero_replicas() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(replicas=0)
    cluster.settle()
    assert published_revisions(cluster) is not None


def test_config_map_is_deleted_when_no_pod_shares_recipes() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(recipeCache=None)
    cluster.settle()
    assert published_revisions(cluster) is None


def test_config_map_does_not_exist_without_shared_recipes() -> None:
    assert published_revisions(served()) is None
