"""Memory shares of objects, and the log lines about objects that the store does not keep."""

import logging
from typing import Any

import pytest

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.kinds import CONFIG_MAP, CONTROLLER_REVISION, POD, RESOURCE, SERVICE, Kind, kind_of
from gaudi_operator.shell.watching.incoming import reduce_incoming_object
from gaudi_operator.shell.watching.memory_shares import (
    ALL_BYTES,
    NAMESPACE_BYTES,
    OBJECT_BYTES,
    PODS_BYTES,
    RESOURCE_BYTES,
    SHARE_BYTES,
    MemoryShares,
    MemoryWeight,
    memory_weight,
)
from gaudi_operator.shell.watching.store import Store, StoreKey
from gaudi_operator.shell.watching.trimmed_objects import encode_trimmed_templates, trim_object
from tests.unit.operator.core.stories import served
from tests.unit.operator.shell.watching.test_incoming import owner, some
from tests.unit.operator.shell.watching.test_store import NOW, manifest, store_of

KEY = StoreKey("ns", "tiny")


OTHER, THIRD = "other", "third"


def reserve(
    shares: MemoryShares, kind: Kind, uid: str, weight: int, namespace: str = "ns", stored: int | None = None
) -> bool:
    """Count an object whose stored weight is `weight`, unless `stored` is another one."""
    return shares.reserve(namespace, "tiny", kind, uid, MemoryWeight(weight, weight if stored is None else stored))


def full(objects: str, mebibytes: int, ignored: str) -> str:
    """Return the log line about an object that does not fit into a share."""
    return (
        f"The {objects} take more than {mebibytes} MiB of memory, so the operator ignores {ignored}. Delete objects "
        "that the operator did not create, or make them smaller."
    )


def test_full_share_is_logged_once_until_it_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    shares, objects = MemoryShares(), "objects with the label of GaudiInference ns/tiny"
    assert reserve(shares, SERVICE, "a", SHARE_BYTES)
    assert not reserve(shares, SERVICE, "b", 1)
    assert not reserve(shares, CONFIG_MAP, "c", 1)
    assert caplog.messages == [full(objects, 16, "a Service")]
    shares.release(SERVICE, "a")
    assert reserve(shares, SERVICE, "a", SHARE_BYTES)
    assert not reserve(shares, CONFIG_MAP, "b", 1)
    assert caplog.messages[1:] == [full(objects, 16, "a ConfigMap")]


def test_pods_have_a_separate_share(caplog: pytest.LogCaptureFixture) -> None:
    shares = MemoryShares()
    assert reserve(shares, POD, "a", PODS_BYTES)
    assert reserve(shares, SERVICE, "b", SHARE_BYTES)
    assert not reserve(shares, POD, "c", 1)
    assert caplog.messages == [full("pods with the label of GaudiInference ns/tiny", 64, "a Pod")]


def test_uncounted_object_does_not_free_memory() -> None:
    shares = MemoryShares()
    shares.release(SERVICE, "unknown")
    assert not reserve(shares, SERVICE, "a", SHARE_BYTES + 1)


def test_objects_of_a_full_namespace_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    shares = MemoryShares()
    assert reserve(shares, POD, "a", 1, stored=NAMESPACE_BYTES)
    assert not reserve(shares, SERVICE, "b", 1)
    assert caplog.messages == [full("objects of namespace ns", 112, "a Service")]


def test_full_namespace_leaves_as_much_memory_to_others() -> None:
    shares = MemoryShares()
    assert reserve(shares, POD, "a", 1, stored=NAMESPACE_BYTES)
    assert reserve(shares, POD, "b", 1, OTHER, stored=NAMESPACE_BYTES)


def test_objects_of_all_namespaces_have_a_common_limit(caplog: pytest.LogCaptureFixture) -> None:
    shares = MemoryShares()
    for namespace in ("ns", OTHER):
        assert reserve(shares, POD, namespace, 1, namespace, stored=ALL_BYTES // 2)
    assert not reserve(shares, SERVICE, "b", 1, THIRD)
    assert caplog.messages == [full("objects of all namespaces", 224, "a Service")]


def test_deleted_objects_free_the_memory_of_all_namespaces() -> None:
    shares = MemoryShares()
    for namespace in ("ns", OTHER):
        assert reserve(shares, POD, namespace, 1, namespace, stored=ALL_BYTES // 2)
    shares.release(POD, OTHER)
    assert reserve(shares, POD, "b", 1, THIRD, stored=ALL_BYTES // 2)


def test_each_ignored_resource_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    shares = MemoryShares()
    reserve(shares, POD, "a", 1, stored=NAMESPACE_BYTES)
    for name in ("one", "two"):
        assert not shares.reserve("ns", name, RESOURCE, name, MemoryWeight(1, 1))
    assert [record.resource for record in caplog.records] == ["ns/one", "ns/two"]  # type: ignore[attr-defined]


def test_too_large_resource_is_ignored_with_a_message(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(manifest(RESOURCE, "r", 1, spec={"engine": "x" * RESOURCE_BYTES}))
    assert store.resource(KEY) is None
    assert caplog.messages == [
        full(
            "fields of GaudiInference ns/tiny (r)",
            1,
            "GaudiInference ns/tiny until it changes, and its gates stay as they are",
        )
    ]


def test_resource_of_the_maximum_weight_is_kept() -> None:
    store = store_of(manifest(RESOURCE, "r", 1, spec={"engine": "x" * (RESOURCE_BYTES - 5000)}))
    assert store.resource(KEY) is not None


def test_thousand_resources_with_ten_pods_each_fit() -> None:
    cluster = served(replicas=1)
    children = [
        encode_trimmed_templates(kind_of(each), trim_object(kind_of(each), each)) for each in cluster.objects.values()
    ]
    numbers = {"Pod": 10, "ControllerRevision": 6}
    weights = (memory_weight(each) * numbers.get(each["kind"], 1) for each in children)
    weight = sum(weights) + memory_weight(trim_object(RESOURCE, cluster.resource))
    assert 1000 * weight < ALL_BYTES


def test_oversized_object_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    reduce_incoming_object(CONTROLLER_REVISION, some(CONTROLLER_REVISION, owner(), data={"a": "x" * OBJECT_BYTES}))
    assert caplog.messages == [
        "ControllerRevision a is larger than any object that the operator writes, so its content is ignored."
    ]


def test_object_missing_from_a_list_is_logged_with_its_resource(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(manifest(SERVICE, "s", 1, "r"))
    with caplog.at_level(logging.INFO):
        store.end_list(SERVICE, None, (), 10)
    (record,) = caplog.records
    assert record.message == f"Service {KEY} was deleted while not watched"
    assert record.resource == "ns/tiny"  # type: ignore[attr-defined]


def test_deletions_of_ten_thousand_objects_are_remembered() -> None:
    store = Store()
    for number in range(10_001):
        store.remove(manifest(SERVICE, str(number), 2, "r"))
    assert store.put(manifest(SERVICE, "1", 1, "r")) is None
    assert store.put(manifest(SERVICE, "0", 1, "r")) == KEY


def large_object(name: str, owner: str, version: int = 1) -> dict[str, Any]:
    """Return an object that takes a quarter of a resource's memory share."""
    return manifest(CONTROLLER_REVISION, name, version, owner, data={"x": "x" * (SHARE_BYTES // 4 - 5000)})


def revisions(store: Store) -> set[str]:
    observed = store.observe(KEY, {}, NOW)
    assert observed is not None
    return {each["metadata"]["uid"] for each in observed.revisions}


def test_objects_beyond_the_share_of_a_resource_are_dropped() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), *(large_object(name, "r") for name in "abcde"))
    assert revisions(store) == set("abcd")
    # Pods have a separate share, so the store still accepts a pod of the same resource.
    assert store.put(manifest(POD, "p", 1, "mine")) == KEY


def test_object_outgrowing_the_share_is_dropped() -> None:
    store = store_of(manifest(RESOURCE, "r", 1), manifest(CONTROLLER_REVISION, "a", 1, "r"))
    store.put(manifest(CONTROLLER_REVISION, "a", 2, "r", data={"x": "x" * SHARE_BYTES}))
    assert revisions(store) == set()


def test_objects_of_a_new_resource_free_the_common_share() -> None:
    store = store_of(*(large_object(name, "r") for name in "abcd"), manifest(RESOURCE, "r", 1))
    stray = large_object("stray", "forged")
    assert store.put(stray) == KEY
    assert store.find(stray) is not None


def test_object_is_counted_once_and_freed_after_deletion() -> None:
    store = store_of(
        manifest(RESOURCE, "r", 1), *(large_object(name, "r") for name in "abcd"), large_object("a", "r", 2)
    )
    assert revisions(store) == set("abcd")
    store.remove(large_object("b", "r", 3))
    store.put(large_object("e", "r"))
    assert revisions(store) == set("acde")


def test_objects_without_a_resource_share_one_share() -> None:
    store = Store()
    for number in range(8):
        stray = large_object(str(number), "r")
        stray["metadata"]["labels"][NAME_LABEL] = f"nothing-{number}"
        assert bool(store.put(stray)) is (number < 4)


def test_objects_with_another_owner_do_not_use_the_resources_share() -> None:
    store = store_of(
        manifest(RESOURCE, "r", 1), *(large_object(name, "forged") for name in "abcde"), large_object("mine", "r")
    )
    assert revisions(store) == {"mine"}


def test_object_seen_before_its_resource_belongs_to_it() -> None:
    store = store_of(*(large_object(name, "r") for name in "abcd"), manifest(RESOURCE, "r", 1))
    assert revisions(store) == set("abcd")
    store.put(manifest(CONTROLLER_REVISION, "stray", 1, "forged"))
    assert store.get(KEY, CONTROLLER_REVISION, "controllerrevisions-stray") is not None


def test_objects_outliving_their_resources_share_one_share() -> None:
    store = Store()
    for name in "abc":
        resource = manifest(RESOURCE, name, 1)
        store.put(resource)
        for number in range(4):
            store.put(large_object(f"{name}{number}", name))
        store.remove({**resource, "metadata": {**resource["metadata"], "resourceVersion": "2"}})
    left = (store.find(large_object(f"{name}{number}", name)) for name in "abc" for number in range(4))
    assert sum(each is not None for each in left) == 4
