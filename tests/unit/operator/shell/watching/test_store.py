"""The store after events and lists: newest versions, removed objects, and resources that may be deleted."""

from datetime import UTC, datetime
from typing import Any

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.kinds import (
    POD,
    REPLICA_SET,
    RESOURCE,
    SERVICE,
    Kind,
)
from gaudi_operator.shell.watching.store import Store, StoreKey
from tests.unit.operator.shell.concurrency import INITIAL, count_during_changes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = StoreKey("ns", "tiny")


def manifest(kind: Kind, uid: str, version: int, owner: str | None = None, **body: Any) -> dict[str, Any]:
    references = [{"uid": owner, "controller": True}] if owner else []
    metadata = {
        "namespace": "ns",
        "name": "tiny" if kind is RESOURCE else f"{kind.plural}-{uid}",
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {NAME_LABEL: "tiny"},
        "ownerReferences": references,
        "managedFields": [{"manager": "kubectl"}],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def store_of(*manifests: dict[str, Any]) -> Store:
    store = Store()
    for each in manifests:
        store.put(each)
    return store


def take_list(
    store: Store, kind: Kind, namespace: str | None, objects: list[dict[str, Any]], version: int
) -> set[StoreKey]:
    """Store the objects of a list. Return the resources to reconcile, including those that `end_list` returned."""
    first = bool(store.unlisted)
    news = {key for each in objects if (key := store.put(each)) and not first}
    return news | set(store.end_list(kind, namespace, {each["metadata"]["uid"] for each in objects}, version))


def test_newer_version_replaces_the_object_and_requeues_its_resource() -> None:
    store = store_of(manifest(SERVICE, "s", 1, "r"))
    assert store.put(manifest(SERVICE, "s", 2, "r", spec="new")) == KEY
    service = store.get(KEY, SERVICE, "services-s")
    assert service is not None
    assert service["spec"] == "new"


def test_same_and_older_versions_are_ignored() -> None:
    store = store_of(manifest(SERVICE, "s", 10, "r"))
    assert store.put(manifest(SERVICE, "s", 10, "r", spec="other")) is None
    assert store.put(manifest(SERVICE, "s", 9, "r", spec="old")) is None


def test_versions_are_compared_as_numbers() -> None:
    store = store_of(manifest(SERVICE, "s", 9, "r", spec="old"))
    assert store.put(manifest(SERVICE, "s", 10, "r", spec="new")) == KEY


def test_late_event_does_not_restore_a_deleted_object() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(SERVICE, "s", 5, "r"))
    assert store.remove(manifest(SERVICE, "s", 6, "r")) == KEY
    assert store.put(manifest(SERVICE, "s", 5, "r")) is None
    assert store.get(KEY, SERVICE, "services-s") is None


def test_object_without_the_operators_label_is_ignored() -> None:
    stranger = manifest(SERVICE, "s", 1)
    stranger["metadata"]["labels"] = {}
    assert store_of(stranger).put(stranger) is None


def test_object_losing_the_operators_label_is_dropped() -> None:
    store = store_of(manifest(SERVICE, "s", 1, "r"))
    changed = manifest(SERVICE, "s", 2, "r")
    changed["metadata"]["labels"] = {}
    assert store.put(changed) == KEY
    assert store.get(KEY, SERVICE, "services-s") is None


def test_relabelled_object_moves_to_the_other_resource() -> None:
    store = store_of(manifest(SERVICE, "s", 1, "r"))
    changed = manifest(SERVICE, "s", 2, "r")
    changed["metadata"]["labels"] = {NAME_LABEL: "other"}
    assert store.put(changed) == StoreKey("ns", "other")
    assert store.get(KEY, SERVICE, "services-s") is None
    assert store.get(StoreKey("ns", "other"), SERVICE, "services-s") is not None


def test_version_without_changes_requeues_no_resource() -> None:
    store = store_of(manifest(REPLICA_SET, "s", 9, "r", status={"replicas": 1}))
    assert store.put(manifest(REPLICA_SET, "s", 10, "r", status={"replicas": 2})) is None
    assert store.put(manifest(REPLICA_SET, "s", 9, "r", spec="old")) is None
    assert store.put(manifest(REPLICA_SET, "s", 11, "r", status={"conditions": [{"type": "ReplicaFailure"}]})) == KEY


def test_managed_fields_are_not_kept() -> None:
    service = store_of(manifest(SERVICE, "s", 1, "r")).get(KEY, SERVICE, "services-s")
    assert service is not None
    assert "managedFields" not in service["metadata"]


def test_sweep_removes_objects_missing_from_a_list() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(POD, "gone", 3, "mine"), manifest(POD, "there", 4, "mine"))
    assert store.remove_missing_objects(POD, None, {"there"}, version=10) == {KEY}
    assert store.get(KEY, POD, "pods-gone") is None
    assert store.get(KEY, POD, "pods-there") is not None


def test_sweep_keeps_objects_created_after_the_list() -> None:
    store = store_of(manifest(POD, "young", 11, "mine"))
    assert store.remove_missing_objects(POD, None, set(), version=10) == set()


def test_sweep_removes_objects_of_the_version_of_the_list() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(POD, "p", 10, "mine"))
    assert store.remove_missing_objects(POD, None, set(), version=10) == {KEY}


def test_list_of_one_namespace_removes_missing_objects_there() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(POD, "p", 1, "mine"))
    assert take_list(store, POD, "ns", [], version=10) == {KEY}
    assert store.get(KEY, POD, "pods-p") is None


def test_missing_pods_do_not_mark_the_resource_maybe_deleted() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(POD, "p", 1, "mine"))
    take_list(store, POD, None, [], version=10)
    assert not store.maybe_deleted


def test_sweep_of_one_namespace_keeps_objects_of_others() -> None:
    store = store_of(manifest(POD, "p", 1, "mine"))
    assert store.remove_missing_objects(POD, "elsewhere", set(), version=10) == set()


def test_no_resource_is_requeued_before_every_kind_is_listed() -> None:
    store = Store()
    store.unlisted = {(RESOURCE, None), (SERVICE, None)}
    assert not take_list(store, RESOURCE, None, [manifest(RESOURCE, "r", 1)], version=10)
    assert store.unlisted == {(SERVICE, None)}
    assert list(take_list(store, SERVICE, None, [manifest(SERVICE, "s", 1, "r")], version=10)) == [KEY]
    assert not store.unlisted


def test_empty_last_list_requeues_all_resources() -> None:
    store = Store()
    store.unlisted = {(RESOURCE, None), (SERVICE, None)}
    take_list(store, RESOURCE, None, [manifest(RESOURCE, "r", 1)], version=10)
    assert list(take_list(store, SERVICE, None, [], version=10)) == [KEY]


def test_every_namespace_has_a_separate_list() -> None:
    store = Store()
    store.unlisted = {(RESOURCE, "ns"), (RESOURCE, "other")}
    assert not take_list(store, RESOURCE, "ns", [manifest(RESOURCE, "r", 1)], version=10)
    assert list(take_list(store, RESOURCE, "other", [], version=10)) == [KEY]


def test_repeated_list_does_not_complete_the_first_lists() -> None:
    store = Store()
    store.unlisted = {(RESOURCE, None), (SERVICE, None)}
    for version in (10, 11):
        assert not take_list(store, RESOURCE, None, [manifest(RESOURCE, "r", 1)], version=version)


def test_later_list_requeues_only_changed_resources() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(POD, "gone", 3, "mine"))
    assert take_list(store, RESOURCE, None, [manifest(RESOURCE, "r", 1)], version=10) == set()
    assert take_list(store, RESOURCE, None, [manifest(RESOURCE, "r", 2, spec="new")], version=11) == {KEY}
    assert take_list(store, POD, None, [], version=11) == {KEY}
    assert store.get(KEY, POD, "pods-gone") is None


def test_observed_deletion_is_not_undone_by_older_lists() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(SERVICE, "s", 5, "r"))
    store.remove(manifest(SERVICE, "s", 6, "r"))
    assert take_list(store, SERVICE, None, [manifest(SERVICE, "s", 5, "r")], version=5) == set()
    assert store.get(KEY, SERVICE, "services-s") is None


def test_resources_of_the_first_lists_are_maybe_deleted() -> None:
    store = Store()
    store.unlisted = {(RESOURCE, None), (SERVICE, None)}
    take_list(store, RESOURCE, None, [manifest(RESOURCE, "r", 1)], version=10)
    take_list(store, SERVICE, None, [], version=20)
    assert store.maybe_deleted == {KEY}


def test_resource_that_lost_an_object_is_maybe_deleted() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(SERVICE, "s", 5, "r"))
    assert not store.maybe_deleted
    take_list(store, SERVICE, None, [], version=10)
    assert store.maybe_deleted == {KEY}


def test_maybe_deleted_mark_is_removed_with_its_resource() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(SERVICE, "s", 5, "r"))
    store.mark_maybe_deleted(SERVICE, KEY)
    store.remove(manifest(RESOURCE, "r", 6))
    assert not store.maybe_deleted
    store.mark_maybe_deleted(SERVICE, KEY)
    assert not store.maybe_deleted


def test_deleted_pods_do_not_mark_the_resource_maybe_deleted() -> None:
    store = store_of(manifest(RESOURCE, "r", 1))
    store.mark_maybe_deleted(POD, KEY)
    assert not store.maybe_deleted


def test_resources_are_counted_while_objects_arrive() -> None:
    store = Store()

    def see(number: int) -> None:
        store.put(manifest(RESOURCE, str(number), number))

    assert count_during_changes(store.count_resources, see) >= INITIAL
