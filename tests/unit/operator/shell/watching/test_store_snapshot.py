"""The snapshot of a resource for a reconcile, and lookups of objects and resources in the store."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.core.gate.condition import gate_condition_status
from gaudi_operator.core.names import (
    GATE,
    GROUP_NAME_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    WORKER_INDEX_LABEL,
)
from gaudi_operator.core.observed import Observed, ObservedReport
from gaudi_operator.shell.kinds import (
    AUTOSCALER,
    CLASS,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DISRUPTION_BUDGET,
    LEADER_WORKER_SET,
    NETWORK_POLICY,
    POD,
    PVC,
    REPLICA_SET,
    RESOURCE,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Kind,
)
from gaudi_operator.shell.watching.store import Store, StoreKey, is_stored_object_retained, store_key_of
from tests.unit.operator.shell.watching.test_store import KEY, NOW, manifest, store_of

FIELDS = {
    "revisions": CONTROLLER_REVISION,
    "replica_sets": REPLICA_SET,
    "leader_worker_sets": LEADER_WORKER_SET,
    "services": SERVICE,
    "config_maps": CONFIG_MAP,
    "service_accounts": SERVICE_ACCOUNT,
    "pvcs": PVC,
    "pod_disruption_budgets": DISRUPTION_BUDGET,
    "network_policies": NETWORK_POLICY,
    "autoscalers": AUTOSCALER,
}


def observed(store: Store, reports: dict[str, ObservedReport] | None = None, **times: Any) -> Observed:
    found = store.observe(KEY, reports or {}, NOW, **times)
    assert found is not None
    return found


def uids(manifests: Any) -> list[str]:
    return [each["metadata"]["uid"] for each in manifests]


@pytest.mark.parametrize(("field", "kind"), FIELDS.items())
def test_snapshot_has_owned_objects_by_name(field: str, kind: Kind) -> None:
    owned = (manifest(kind, "b", 1, "r"), manifest(kind, "a", 1, "r"), manifest(kind, "c", 1, "another"))
    found = observed(store_of(manifest(RESOURCE, "r", 1), *owned))
    assert {name: uids(getattr(found, name)) for name in FIELDS} == {**{each: [] for each in FIELDS}, field: ["a", "b"]}


def test_snapshot_has_classes_and_reports_of_its_pods() -> None:
    replica_set = manifest(REPLICA_SET, "mine", 1, "r")
    pods = (manifest(POD, "p", 1, "mine"), manifest(POD, "q", 1, "another"))
    store = store_of(manifest(RESOURCE, "r", 1), replica_set, *pods, manifest(CLASS, "k", 1))
    reports = {uid: ObservedReport(uid, NOW) for uid in ("p", "q", "x")}
    found = observed(store, reports)
    assert found.reports == {"p": reports["p"]}
    assert uids(found.classes) == ["k"]


@pytest.mark.parametrize("served", [False, True])
def test_snapshot_has_its_times_and_whether_groups_are_served(served: bool) -> None:
    store, written = store_of(manifest(RESOURCE, "r", 1)), NOW - timedelta(seconds=3)
    store.groups_served = served
    found = observed(store, status_written_at=written)
    assert (found.now, found.status_written_at, found.groups_served) == (NOW, written, served)
    assert uids([found.resource]) == ["r"]


def test_stateful_set_of_a_group_belongs_to_its_resource() -> None:
    made = manifest(STATEFUL_SET, "s", 1)
    made["metadata"]["labels"] = {GROUP_NAME_LABEL: "tiny-of-two-0123456789"}
    assert store_key_of(made) == StoreKey("ns", "tiny-of-two")
    made["metadata"]["labels"] = {NAME_LABEL: "tiny"}
    assert store_key_of(made) is None


def test_objects_are_found_by_kind_and_full_name() -> None:
    store = store_of(manifest(SERVICE, "t", 1, "r"), manifest(SERVICE, "s", 1, "r"), manifest(CONFIG_MAP, "s", 1, "r"))
    found = store.get(KEY, SERVICE, "services-s")
    assert found is not None
    assert uids([found]) == ["s"]
    assert store.get(KEY, SERVICE, "services-") is None
    assert store.get(StoreKey("ns", "tin"), SERVICE, "services-s") is None


def test_resources_are_counted_and_listed_without_their_children() -> None:
    other = manifest(RESOURCE, "o", 1, spec="other")
    other["metadata"] |= {"name": "other", "namespace": "elsewhere"}
    store = store_of(manifest(SERVICE, "s", 1, "r"), manifest(RESOURCE, "r", 1), other)
    assert (store.count_resources(), uids(store.all_resources())) == (2, ["r", "o"])
    assert store.resource_keys() == (KEY, StoreKey("elsewhere", "other"))
    assert store.any_resource(lambda each: each.get("spec") == "other")
    assert not store.any_resource(lambda each: each.get("spec") == "none")
    assert not store_of(manifest(SERVICE, "s", 1, "r")).any_resource(lambda _: True)


@pytest.mark.parametrize(("status", "is_open"), [("True", True), ("False", False), (None, False)])
def test_gate_state_follows_the_pod_condition(status: str | None, is_open: bool) -> None:
    others = [{"type": "Ready", "status": "True"}, {"type": f"{GATE}x", "status": "True"}]
    conditions = [*others, *([{"type": GATE, "status": status}] if status else [])]
    pod = manifest(POD, "p", 1, "mine", status={"conditions": conditions})
    assert gate_condition_status(pod) == status
    store = store_of(pod)
    assert store.gate_is_open(KEY, "p") is is_open
    assert not store.gate_is_open(KEY, "q")
    assert not store.gate_is_open(StoreKey("ns", "other"), "p")


def pvc(*references: dict[str, Any], managed_by: str = MANAGED_BY, kind: Kind = PVC) -> dict[str, Any]:
    found = manifest(kind, "c", 1)
    found["metadata"]["labels"][MANAGED_BY_LABEL] = managed_by
    found["metadata"]["ownerReferences"] = list(references)
    return found


@pytest.mark.parametrize(
    ("claim", "retained"),
    [
        (pvc(), True),
        (pvc({"uid": "x"}), True),
        (pvc({"uid": "x", "controller": True}), False),
        (pvc(managed_by=f"{MANAGED_BY}x"), False),
        (pvc(managed_by=MANAGED_BY[:-1]), False),
        (pvc(kind=CONFIG_MAP), False),
    ],
)
def test_only_pvcs_of_the_operator_outlive_their_resource(claim: dict[str, Any], retained: bool) -> None:
    assert is_stored_object_retained(claim) is retained
    assert uids(observed(store_of(manifest(RESOURCE, "r", 1), claim)).pvcs) == (["c"] if retained else [])


def test_snapshot_has_only_owned_objects() -> None:
    store = store_of(
        manifest(RESOURCE, "r", 1),
        manifest(REPLICA_SET, "mine", 1, "r"),
        manifest(REPLICA_SET, "foreign", 1, "another-uid"),
        manifest(POD, "p", 1, "mine"),
        manifest(POD, "q", 1, "foreign"),
    )
    observed = store.observe(KEY, {}, NOW)
    assert observed is not None
    assert [each["metadata"]["uid"] for each in observed.replica_sets] == ["mine"]
    assert [each["metadata"]["uid"] for each in observed.pods] == ["p"]


def member(uid: str, workload: str, index: int, stateful_set: str = "of-leaders") -> dict[str, Any]:
    """Return a pod of a group. The StatefulSet with the UID `stateful_set` is its controller."""
    pod = manifest(POD, uid, 1)
    pod["metadata"]["labels"] |= {GROUP_NAME_LABEL: workload, WORKER_INDEX_LABEL: str(index)}
    pod["metadata"]["ownerReferences"] = [{"uid": stateful_set, "kind": "StatefulSet", "controller": True}]
    return pod


WORKLOAD = "tiny-0123456789"


def group(*owners: tuple[str, str]) -> list[dict[str, Any]]:
    """Return a resource, its LeaderWorkerSet `mine`, and StatefulSets given as (UID, UID of the owner)."""
    workload = manifest(LEADER_WORKER_SET, "mine", 1, "r")
    workload["metadata"]["name"] = WORKLOAD
    found = [manifest(RESOURCE, "r", 1), workload]
    for uid, owner in owners:
        made = manifest(STATEFUL_SET, uid, 1, owner)
        made["metadata"]["labels"] = {GROUP_NAME_LABEL: WORKLOAD}
        found.append(made)
    return found


def pods_and_workers(*manifests: dict[str, Any]) -> tuple[list[str], list[str]]:
    observed = store_of(*manifests).observe(KEY, {}, NOW)
    assert observed is not None
    assert [each["metadata"]["uid"] for each in observed.workloads] == ["mine"]
    return tuple([each["metadata"]["uid"] for each in pods] for pods in (observed.pods, observed.workers))  # type: ignore[return-value]


def test_leader_represents_its_group_and_workers_are_separate() -> None:
    manifests = (
        *group(("of-leaders", "mine"), ("of-workers", "first")),
        member("second", WORKLOAD, 1, "of-workers"),
        member("first", WORKLOAD, 0),
    )
    assert pods_and_workers(*manifests) == (["first"], ["second"])


@pytest.mark.parametrize(
    "forged",
    [
        [member("evil", WORKLOAD, 0, "uid-of-nothing")],
        [*group(("own", "uid-of-nothing"))[2:], member("evil", WORKLOAD, 0, "own")],
        # In the first entry, a leader claims the StatefulSet of workers. In the second entry, a forged leader owns the
        # StatefulSet of its own worker.
        [member("evil", WORKLOAD, 0, "of-workers")],
        [*group(("own", "evil"))[2:], member("evil", WORKLOAD, 0, "own"), member("evil-1", WORKLOAD, 1, "own")],
        [member("evil", WORKLOAD, 1, "of-leaders")],
    ],
)
def test_pod_not_created_by_the_group_is_ignored(forged: list[dict[str, Any]]) -> None:
    honest = (*group(("of-leaders", "mine"), ("of-workers", "first")), member("first", WORKLOAD, 0))
    assert pods_and_workers(*honest, *forged) == (["first"], [])


def test_worker_outliving_its_leader_is_terminating() -> None:
    worker = member("second", WORKLOAD, 1, "of-workers")
    assert pods_and_workers(*group(("of-leaders", "mine")), worker) == ([], [])
    worker["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert pods_and_workers(*group(("of-leaders", "mine")), worker) == ([], ["second"])


def test_unknown_resource_has_no_snapshot() -> None:
    assert store_of(manifest(SERVICE, "s", 1, "r")).observe(KEY, {}, NOW) is None
