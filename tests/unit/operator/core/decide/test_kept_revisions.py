"""What pods that share recipes are told of the kept revisions: whole stories of decide()."""

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_runtime.contract.config import KeptRevisions
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.stories import served

SHARED = {"enabled": True, "size": "5Gi"}


def told(cluster: Cluster) -> KeptRevisions | None:
    """What the pods read, None where nobody tells them."""
    found = cluster.objects.get(("ConfigMap", "tiny-recipes"))
    return KeptRevisions.model_validate_json(found["data"]["kept.json"]) if found else None


def stored(cluster: Cluster) -> set[str]:
    """Names of the revisions of the history."""
    return {each["metadata"]["labels"][REVISION_LABEL] for each in cluster.kind("ControllerRevision")}


def test_pods_are_told_the_whole_history_and_whose_it_is() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    found = told(cluster)
    assert found is not None
    assert (found.resource, set(found.revisions), len(found.revisions)) == ("uid-of-tiny", stored(cluster), 2)


def test_a_forgotten_revision_is_no_longer_told() -> None:
    cluster = served(recipeCache=SHARED, rollout={"revisionHistoryLimit": 1})
    for length in (512, 768, 1024):
        cluster.change(model={"maxModelLen": length})
        cluster.settle()
    found = told(cluster)
    assert found is not None
    assert set(found.revisions) == stored(cluster)
    assert len(found.revisions) == 2


def test_forgetting_and_telling_of_it_are_one_reconcile() -> None:
    cluster = served(recipeCache=SHARED, replicas=0, rollout={"revisionHistoryLimit": 1})
    for length in (512, 768):
        cluster.change(model={"maxModelLen": length})
        cluster.operate()
    cluster.settle()
    cluster.change(model={"maxModelLen": 1024})
    while len(stored(cluster)) != 2:
        cluster.operate()
    found = told(cluster)
    assert found is not None
    assert set(found.revisions) == stored(cluster)


def test_a_new_revision_is_told_before_its_first_pod() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    found = told(cluster)
    assert found is not None
    assert set(found.revisions) == stored(cluster)
    assert len(found.revisions) == 2


def test_at_rest_nothing_is_written_again() -> None:
    cluster = served(recipeCache=SHARED)
    assert cluster.operate().actions == ()


def test_what_somebody_else_wrote_is_put_right() -> None:
    cluster = served(recipeCache=SHARED)
    before = told(cluster)
    cluster.objects["ConfigMap", "tiny-recipes"]["data"] = {"kept.json": "{}"}
    cluster.operate()
    assert told(cluster) == before


def test_it_stays_at_zero_replicas() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(replicas=0)
    cluster.settle()
    assert told(cluster) is not None


def test_it_goes_once_no_pod_shares_recipes() -> None:
    cluster = served(recipeCache=SHARED)
    cluster.change(recipeCache={"enabled": False})
    cluster.settle()
    assert told(cluster) is None


def test_where_recipes_are_not_shared_nothing_is_told() -> None:
    assert told(served()) is None
