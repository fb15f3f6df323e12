"""Trimming keeps the fields of an object that the operator reads, and stores equal texts once."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.children.child_actions import hash_child_texts
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, GROUP_SIZE_ANNOTATION, PLAN_HASH_ANNOTATION
from gaudi_operator.core.observed import Observed
from gaudi_operator.shell.kinds import (
    AUTOSCALER,
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DISRUPTION_BUDGET,
    LEADER_WORKER_SET,
    POD,
    REPLICA_SET,
    RESOURCE,
    Kind,
    kind_of,
)
from gaudi_operator.shell.watching.memory_shares import memory_weight
from gaudi_operator.shell.watching.trimmed_objects import (
    decode_trimmed_templates,
    encode_trimmed_templates,
    equal_trimmed_objects,
    read_trimmed_object,
    trim_object,
)
from tests.unit.operator.core.children.test_children_as_written import EXAMPLES, children

_PROBE = {"name": "runtime", "ports": [{"name": "status"}], "image": "registry.test/runtime:1"}

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
JSON = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner))


def read(kind: Kind, version: int = 1, **body: Any) -> dict[str, Any]:
    """Return a manifest as parsed from a response of the API server. No text is shared with other manifests."""
    metadata = {"name": "tiny", "uid": "u", "resourceVersion": str(version), "managedFields": [{"manager": "kubectl"}]}
    found: dict[str, Any] = json.loads(json.dumps({"kind": kind.kind, "metadata": metadata, **body}))
    return found


def test_pod_keeps_its_status_and_ports() -> None:
    kept = trim_object(POD, read(POD, spec={"containers": [_PROBE], "nodeName": "n"}, status={"phase": "Running"}))
    assert kept["spec"] == {"containers": [{"name": "runtime", "ports": [{"name": "status"}]}]}
    assert kept["status"] == {"phase": "Running"}


def test_sidecars_are_distinguished_from_other_init_containers() -> None:
    started = [{"name": "proxy", "restartPolicy": "Always", "image": "i"}, {"name": "fetch"}]
    kept = trim_object(POD, read(POD, spec={"initContainers": started}))
    assert kept["spec"]["initContainers"] == [{"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"}]


def test_replica_sets_keep_refusals_and_no_counts() -> None:
    refused = [{"type": "ReplicaFailure", "status": "True"}]
    kept = trim_object(
        REPLICA_SET, read(REPLICA_SET, spec={"replicas": 1}, status={"replicas": 1, "conditions": refused})
    )
    assert kept["status"] == {"conditions": refused}
    assert kept["spec"] == {"replicas": 1}


def test_desired_replicas_of_an_autoscaler_are_kept() -> None:
    full_status = {"desiredReplicas": 3, "conditions": [], "currentMetrics": [{}], "lastScaleTime": "now"}
    assert trim_object(AUTOSCALER, read(AUTOSCALER, status=full_status))["status"] == {
        "desiredReplicas": 3,
        "conditions": [],
    }


def test_status_of_a_resource_is_kept_completely() -> None:
    status = {"phase": "Serving", "other": 1, "texts": ["one", {"two": "three"}]}
    assert trim_object(RESOURCE, read(RESOURCE, status=status))["status"] == status


def test_equal_texts_are_kept_once() -> None:
    one, other = (trim_object(POD, read(POD, status={"phase": "Run" + "ning", "podIP": "10.0.0.1"})) for _ in range(2))
    assert one["status"]["podIP"] is other["status"]["podIP"]
    assert next(iter(one["status"])) is next(iter(other["status"]))


def test_texts_are_forgotten_after_ten_thousand_others() -> None:
    first, *_, last = (
        trim_object(POD, read(POD, status={"podIP": "10.0.0.1", "others": [f"{count} {n}" for n in range(count)]}))
        for count in (1, 10_000, 1)
    )
    assert first["status"]["podIP"] == last["status"]["podIP"]
    assert first["status"]["podIP"] is not last["status"]["podIP"]


def test_long_texts_are_not_kept_after_their_object() -> None:
    one, other = (trim_object(POD, read(POD, status={"message": "x" * 300})) for _ in range(2))
    assert one["status"]["message"] is not other["status"]["message"]


@given(JSON)
def test_decoded_template_equals_the_original(value: Any) -> None:
    kept = encode_trimmed_templates(
        CONTROLLER_REVISION, trim_object(CONTROLLER_REVISION, read(CONTROLLER_REVISION, data=value))
    )
    (revision,) = decode_trimmed_templates(Observed({}, revisions=(kept,))).revisions
    assert json.dumps(revision["data"]) == json.dumps(value)


def test_decision_gets_the_decoded_spec_of_a_workload() -> None:
    kinds = REPLICA_SET, LEADER_WORKER_SET
    sets, groups = (
        (encode_trimmed_templates(kind, trim_object(kind, read(kind, spec={"replicas": 2}))),) for kind in kinds
    )
    decoded = decode_trimmed_templates(Observed({}, replica_sets=sets, leader_worker_sets=groups))
    assert [workload["spec"] for workload in decoded.workloads] == [{"replicas": 2}] * 2


@pytest.mark.parametrize("nested_value", [{}, [], {"a": []}])
def test_stored_template_takes_less_than_its_json(nested_value: Any) -> None:
    data = {"x": [{f"{number:x}": nested_value} for number in range(5000)]}
    kept = encode_trimmed_templates(
        CONTROLLER_REVISION, trim_object(CONTROLLER_REVISION, read(CONTROLLER_REVISION, data=data))
    )
    assert memory_weight(kept) < len(json.dumps(data))


def nested(value: Any, levels: int, kind: type) -> Any:
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("field", ["spec", "status"])
def test_too_deeply_nested_value_is_not_copied(field: str, kind: type) -> None:
    deep = nested("end", 800, kind)
    assert trim_object(RESOURCE, {"kind": "", "metadata": {}, field: deep})[field] == deep


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("field", ["spec", "status"])
def test_nested_texts_are_kept_once(field: str, kind: type) -> None:
    texts = []
    for _ in range(2):
        value = trim_object(RESOURCE, read(RESOURCE, **{field: nested("the end", 30, kind)}))[field]
        for _ in range(30):
            value = value[0] if kind is list else value["a"]
        texts.append(value)
    assert texts[0] is texts[1]


def test_version_without_other_changes_is_recognized() -> None:
    one = trim_object(
        DISRUPTION_BUDGET, read(DISRUPTION_BUDGET, 1, spec={"minAvailable": 0}, status={"expectedPods": 1})
    )
    two = trim_object(
        DISRUPTION_BUDGET, read(DISRUPTION_BUDGET, 2, spec={"minAvailable": 0}, status={"expectedPods": 2})
    )
    three = trim_object(DISRUPTION_BUDGET, read(DISRUPTION_BUDGET, 3, spec={"minAvailable": 1}))
    assert equal_trimmed_objects(one, two)
    assert not equal_trimmed_objects(two, three)


@pytest.mark.parametrize("field", ["status", "data", "immutable"])
def test_change_of_any_field_is_detected(field: str) -> None:
    one, other = read(RESOURCE, 1, **{field: {"a": "b"}}), read(RESOURCE, 2, **{field: {"a": "c"}})
    assert not equal_trimmed_objects(trim_object(RESOURCE, one), trim_object(RESOURCE, other))


def test_change_of_an_annotation_is_detected() -> None:
    one, two = read(RESOURCE, 1), read(RESOURCE, 2)
    two["metadata"]["annotations"] = {"a": "b"}
    assert not equal_trimmed_objects(trim_object(RESOURCE, one), trim_object(RESOURCE, two))


def api_server_json(manifest: dict[str, Any]) -> bytes:
    """Return the JSON that the API server sends, which has no spaces."""
    return json.dumps(manifest, separators=(",", ":")).encode()


def test_trimmed_json_equals_the_trimmed_object() -> None:
    pod = read(POD, spec={"containers": [_PROBE], "nodeName": "n"}, status={"phase": "Running"})
    assert read_trimmed_object(POD, api_server_json(pod)) == trim_object(POD, pod)


def test_malformed_object_is_kept_unchanged() -> None:
    strange = read(POD, spec={"containers": "none"})
    assert read_trimmed_object(POD, api_server_json(strange)) == trim_object(POD, strange) == strange


@pytest.mark.parametrize("text", [b"{", b"5", b"\xff"])
def test_json_that_is_not_an_object_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        read_trimmed_object(POD, text)


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_written_fields_of_a_child_are_kept(example: str) -> None:
    for child in children(example).values():
        assert trim_object(kind_of(child), child) == hash_child_texts(child)


def test_content_of_a_config_map_is_a_digest() -> None:
    found = trim_object(CONFIG_MAP, read(CONFIG_MAP, data={"config.json": "{}", "other": "x" * 2**20}))
    assert found["data"]["config.json"] == sha256(b"{}").hexdigest()
    assert len(found["data"]["other"]) == 64


def test_change_of_an_unread_annotation_is_detected() -> None:
    kept = []
    for value in ("now", "again"):
        resource = read(RESOURCE)
        resource["metadata"]["annotations"] = {"touched": value * 2**15}
        kept.append(trim_object(RESOURCE, resource))
    assert not equal_trimmed_objects(*kept)
    assert len(str(kept)) < 2**12


def test_read_annotations_of_a_resource_are_kept() -> None:
    resource = read(RESOURCE)
    resource["metadata"]["annotations"] = {"inference.gaudi.dev/restarted": "now"}
    assert trim_object(RESOURCE, resource)["metadata"]["annotations"] == {"inference.gaudi.dev/restarted": "now"}


def test_pod_keeps_only_annotations_that_are_read() -> None:
    ours = {PLAN_HASH_ANNOTATION: "a", DELETION_COST_ANNOTATION: "1", GROUP_SIZE_ANNOTATION: "2"}
    pod = read(POD)
    pod["metadata"]["annotations"] = {**ours, "example.com/x": "x" * 2**18}
    assert trim_object(POD, pod)["metadata"]["annotations"] == ours
