"""Each write changes one object by UID, is sent once, has printable texts, and keeps what other clients wrote."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gaudi_operator.api.v1alpha1.status import Condition, GaudiInferenceStatus, LastTermination, PodState
from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Apply, Delete, SetDeletionCost, SetGate
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, FIELD_MANAGER, GATE, REMOVED_FIRST
from gaudi_operator.errors import StalledError, TransientError, WaitingError
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import POD, SERVICE
from gaudi_operator.shell.writing.writer import DELETION_COST_MANAGER, GATE_MANAGER, GONE_SECONDS, Writer
from tests.support.builders import merged
from tests.unit.operator.shell.memory import KEY, NAMESPACE, Memory, manifest
from tests.world.api import Object, condition

LATER = datetime(2026, 8, 1, 12, 30, tzinfo=UTC)
CLOCK = Clock(now=lambda: LATER)
SETTLED = GaudiInferenceStatus(
    observed_generation=3,
    pods=(PodState(name="a", revision="r1", phase="Ready", gate=True, ready=True),),
    conditions=(
        Condition(
            type="Ready", status="True", reason="Serving", message="", last_transition_time="2026-08-01T12:00:00Z"
        ),
    ),
)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def writer(memory: Memory) -> Writer:
    return Writer(memory.cluster, memory.store, CLOCK)


@pytest.fixture
def service(memory: Memory) -> Object:
    """Return a Service of the resource."""
    return memory.exists(manifest(SERVICE, "tiny", memory.resource(), spec={"port": 1}))


@pytest.fixture
def pod(memory: Memory) -> Object:
    """Return a scheduled pod without a gate condition."""
    return memory.exists(manifest(POD, "a", spec={"terminationGracePeriodSeconds": 30}, status={"phase": "Running"}))


def deletion(live: Object) -> Delete:
    return Delete(live["apiVersion"], live["kind"], live["metadata"]["name"], live["metadata"]["uid"], "not needed")


def gate(pod: Object, is_open: bool = True) -> SetGate:
    return SetGate(pod["metadata"]["name"], pod["metadata"]["uid"], is_open, "WarmedUp", "all is captured")


def cost(pod: Object, removed_first: bool) -> SetDeletionCost:
    return SetDeletionCost(pod["metadata"]["name"], pod["metadata"]["uid"], "r", removed_first, "it goes")


def apply_port(port: int) -> Apply:
    return Apply(manifest(SERVICE, "tiny", spec={"port": port}), "another port")


async def test_deleted_object_is_removed_from_the_store(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, deletion(service))
    assert memory.api.get("Service", "tiny") is None
    assert memory.store.get(KEY, SERVICE, "tiny") is None


async def test_missing_object_is_removed_from_the_store(memory: Memory, writer: Writer, service: Object) -> None:
    memory.api.remove("Service", "tiny")
    await writer.perform(KEY, deletion(service))
    assert memory.store.get(KEY, SERVICE, "tiny") is None


async def test_deletion_keeps_a_new_object_with_the_same_name(memory: Memory, writer: Writer, service: Object) -> None:
    successor = memory.replace(service)
    with pytest.raises(TransientError):
        await writer.perform(KEY, deletion(service))
    assert memory.api.get("Service", "tiny") == successor


async def test_object_missing_from_the_store_is_deleted(memory: Memory, writer: Writer, service: Object) -> None:
    memory.store.remove(service)
    await writer.perform(KEY, deletion(service))
    assert memory.api.get("Service", "tiny") is None


async def test_deletion_uses_background_propagation(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, deletion(service))
    [(_, options)] = memory.queries
    assert options["propagationPolicy"] == "Background"


async def test_terminating_object_stays_in_the_store(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, deletion(pod))
    known = memory.store.get(KEY, POD, "a")
    assert known
    assert "deletionTimestamp" in known["metadata"]


async def test_gate_is_written_as_a_pod_condition(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, gate(pod))
    assert condition(memory.api.objects["Pod", "a"], GATE) == {
        "type": GATE,
        "status": "True",
        "reason": "WarmedUp",
        "message": "all is captured",
        "lastTransitionTime": "2026-08-01T12:30:00Z",
    }


async def test_gate_of_a_successor_is_unchanged(memory: Memory, writer: Writer, pod: Object) -> None:
    successor = memory.replace(pod)
    with pytest.raises(TransientError):
        await writer.perform(KEY, gate(pod))
    assert memory.api.get("Pod", "a") == successor


async def test_gate_of_a_deleted_pod_is_not_written(memory: Memory, writer: Writer, pod: Object) -> None:
    memory.api.remove("Pod", "a")
    await writer.perform(KEY, gate(pod))
    assert memory.api.get("Pod", "a") is None


@pytest.mark.parametrize(("is_open", "status"), [(True, "True"), (False, "False")])
@pytest.mark.parametrize("before", ["True", "False"])
async def test_gate_keeps_its_transition_time_while_its_status_is_unchanged(
    memory: Memory, writer: Writer, pod: Object, before: str, is_open: bool, status: str
) -> None:
    known = {"type": GATE, "status": before, "reason": "Old", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    seen = memory.exists({**pod, "status": {"phase": "Running", "conditions": [known]}})
    await writer.perform(KEY, gate(seen, is_open))
    found = condition(memory.api.objects["Pod", "a"], GATE)
    assert found["status"] == status
    assert (found["lastTransitionTime"] == "2020-01-01T00:00:00Z") == (status == before)


async def test_gate_write_keeps_the_kubelets_conditions(memory: Memory, writer: Writer, pod: Object) -> None:
    ready = {"type": "Ready", "status": "False"}
    await writer.perform(KEY, gate(memory.exists({**pod, "status": {"phase": "Running", "conditions": [ready]}})))
    assert condition(memory.api.objects["Pod", "a"], "Ready") == ready


async def test_deletion_cost_is_set_and_removed(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, cost(pod, removed_first=True))
    annotations = memory.api.objects["Pod", "a"]["metadata"]["annotations"]
    assert annotations[DELETION_COST_ANNOTATION] == str(REMOVED_FIRST)
    await writer.perform(KEY, cost(pod, removed_first=False))
    assert DELETION_COST_ANNOTATION not in memory.api.objects["Pod", "a"]["metadata"].get("annotations", {})


async def test_deletion_cost_is_not_set_on_a_successor(memory: Memory, writer: Writer, pod: Object) -> None:
    successor = memory.replace(pod)
    with pytest.raises(TransientError):
        await writer.perform(KEY, cost(pod, removed_first=True))
    assert memory.api.get("Pod", "a") == successor


async def test_answer_is_stored_before_the_watch_event(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, apply_port(2))
    assert memory.store.get(KEY, SERVICE, "tiny") == memory.api.get("Service", "tiny")
    assert memory.api.objects["Service", "tiny"]["spec"] == {"port": 2}


async def test_known_object_is_applied_without_a_read(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, apply_port(2))
    assert [method for method, _ in memory.requests] == ["PATCH"]


async def test_child_is_created_in_the_namespace_of_its_resource(memory: Memory, writer: Writer) -> None:
    memory.resource()
    desired = manifest(SERVICE, "tiny")
    del desired["metadata"]["namespace"]
    await writer.perform(KEY, Apply(desired, "new"))
    assert memory.store.get(KEY, SERVICE, "tiny")


async def test_each_purpose_has_its_field_manager_with_force(memory: Memory, writer: Writer, pod: Object) -> None:
    resource = memory.resource()
    await writer.perform(KEY, apply_port(1))
    await writer.perform(KEY, gate(pod))
    await writer.perform(KEY, cost(pod, removed_first=True))
    await writer.write_status(resource, GaudiInferenceStatus(replicas=1))
    queries = [
        query for (method, _), (query, _) in zip(memory.requests, memory.queries, strict=True) if method == "PATCH"
    ]
    managers = (FIELD_MANAGER, GATE_MANAGER, DELETION_COST_MANAGER, FIELD_MANAGER)
    assert queries == [{"fieldManager": manager, "force": "true"} for manager in managers]


async def test_write_has_kind_name_and_uid(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, gate(pod))
    await writer.perform(KEY, cost(pod, removed_first=True))
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": NAMESPACE, "name": "a"}}
    for _, body in memory.queries:
        assert merged(whole, body) == body


async def test_foreign_fields_are_kept(memory: Memory, writer: Writer, service: Object) -> None:
    memory.exists({**service, "spec": {"port": 1, "clusterIP": "10.0.0.1"}})
    await writer.perform(KEY, apply_port(2))
    assert memory.api.objects["Service", "tiny"]["spec"] == {"port": 2, "clusterIP": "10.0.0.1"}


@pytest.mark.parametrize("seen", [True, False])
async def test_foreign_object_with_the_name_is_not_adopted(memory: Memory, writer: Writer, seen: bool) -> None:
    memory.resource()
    foreign = memory.exists(manifest(SERVICE, "tiny", spec={"port": 9}), seen=seen)
    with pytest.raises(StalledError) as refused:
        await writer.perform(KEY, apply_port(1))
    assert refused.value.reason == "NameTaken"
    assert memory.api.get("Service", "tiny") == foreign


async def test_successor_of_an_own_object_is_not_adopted(memory: Memory, writer: Writer, service: Object) -> None:
    successor = memory.replace(service, spec={"port": 9})
    with pytest.raises(TransientError):
        await writer.perform(KEY, apply_port(2))
    assert memory.api.get("Service", "tiny") == successor


async def test_written_texts_have_no_control_characters(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, replace(gate(pod), message="a\x1b]52;c;b\na"))
    assert condition(memory.api.objects["Pod", "a"], GATE)["message"] == "a\\x1b]52;c;b a"


async def test_status_has_no_control_characters(memory: Memory, writer: Writer) -> None:
    ended = LastTermination(reason="Error", message="\x1b[2J")
    row = PodState(name="a", revision="r1", phase="Ended", gate=False, ready=False, last_termination=ended)
    await writer.write_status(memory.resource(), GaudiInferenceStatus(pods=(row,)))
    [shown] = memory.api.objects["GaudiInference", "tiny"]["status"]["pods"]
    assert shown["lastTermination"]["message"] == "\\x1b[2J"


async def test_unobserved_own_object_is_applied(memory: Memory, writer: Writer) -> None:
    memory.exists(manifest(SERVICE, "tiny", memory.resource(), spec={"port": 9}), seen=False)
    await writer.perform(KEY, apply_port(1))
    assert memory.api.objects["Service", "tiny"]["spec"] == {"port": 1}


async def test_new_object_is_created_with_one_request(memory: Memory, writer: Writer) -> None:
    memory.resource()
    await writer.perform(KEY, apply_port(1))
    assert [method for method, _ in memory.requests] == ["PATCH"]
    assert memory.store.get(KEY, SERVICE, "tiny") == memory.api.get("Service", "tiny")


async def test_create_is_retried_when_the_name_is_free_again(memory: Memory, writer: Writer) -> None:
    memory.resource()
    memory.answers = [ApiClientResponse(409, b'{"reason": "Conflict"}')]
    with pytest.raises(TransientError):
        await writer.perform(KEY, apply_port(1))
    assert memory.api.get("Service", "tiny") is None


async def test_other_create_error_does_not_read_the_owner(memory: Memory, writer: Writer) -> None:
    memory.resource()
    memory.answers = [ApiClientResponse(503, b"{}")]
    with pytest.raises(TransientError):
        await writer.perform(KEY, apply_port(1))
    assert [method for method, _ in memory.requests] == ["PATCH"]


@pytest.mark.parametrize("successor", [False, True])
async def test_no_child_is_created_for_a_deleted_resource(memory: Memory, writer: Writer, successor: bool) -> None:
    resource = memory.resource()
    memory.store.mark_maybe_deleted(SERVICE, KEY)
    if successor:
        memory.replace(resource)
    else:
        memory.api.remove(resource["kind"], "tiny")
    with pytest.raises(WaitingError) as waiting:
        await writer.check_still_exists(KEY, [apply_port(1)])
    assert waiting.value.reason == "ResourceGone"
    assert waiting.value.seconds == GONE_SECONDS
    assert str(waiting.value).endswith(" was deleted: no more objects are created for it.")


async def test_no_child_is_created_after_an_unobserved_deletion(memory: Memory, writer: Writer) -> None:
    memory.store.remove(memory.resource())
    with pytest.raises(WaitingError):
        await writer.check_still_exists(KEY, [apply_port(1)])


async def test_resource_that_lost_a_child_is_read_once(memory: Memory, writer: Writer) -> None:
    memory.resource()
    memory.store.mark_maybe_deleted(SERVICE, KEY)
    await writer.check_still_exists(KEY, [apply_port(1)])
    await writer.check_still_exists(KEY, [apply_port(1)])
    assert [method for method, _ in memory.requests] == ["GET"]


async def test_new_resource_is_not_read(memory: Memory, writer: Writer) -> None:
    memory.resource()
    await writer.check_still_exists(KEY, [apply_port(1)])
    assert not memory.requests


async def test_resource_is_not_read_for_a_change(memory: Memory, writer: Writer, service: Object) -> None:
    memory.store.mark_maybe_deleted(SERVICE, KEY)
    await writer.check_still_exists(KEY, [apply_port(2), deletion(service)])
    assert not memory.requests


async def test_status_is_written_once(memory: Memory, writer: Writer) -> None:
    resource, status = memory.resource(), GaudiInferenceStatus(replicas=2)
    await writer.write_status(resource, status)
    await writer.write_status(memory.api.objects["GaudiInference", "tiny"], status)
    assert len(memory.writes) == 1


async def test_status_is_written_without_empty_values(memory: Memory, writer: Writer) -> None:
    await writer.write_status(memory.resource(), SETTLED)
    shown = memory.api.objects["GaudiInference", "tiny"]["status"]
    assert shown["observedGeneration"] == 3
    assert {"message", "capturedPercent"}.isdisjoint(shown["pods"][0])


async def test_unchanged_status_is_not_written_after_a_restart(memory: Memory, writer: Writer) -> None:
    await writer.write_status(memory.resource(), SETTLED)
    successor = Writer(memory.cluster, memory.store, CLOCK)
    await successor.write_status(memory.api.objects["GaudiInference", "tiny"], SETTLED)
    assert len(memory.writes) == 1


async def test_changed_status_is_written(memory: Memory, writer: Writer) -> None:
    await writer.write_status(memory.resource(), GaudiInferenceStatus(replicas=1))
    await writer.write_status(memory.api.objects["GaudiInference", "tiny"], GaudiInferenceStatus(replicas=2))
    assert memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 2


async def test_externally_changed_status_is_written_again(memory: Memory, writer: Writer) -> None:
    await writer.write_status(memory.resource(), GaudiInferenceStatus(replicas=1))
    live = memory.api.objects["GaudiInference", "tiny"]
    await writer.write_status(memory.exists({**live, "status": {"replicas": 9}}), GaudiInferenceStatus(replicas=1))
    assert memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 1


async def test_status_with_foreign_fields_is_written_once(memory: Memory, writer: Writer) -> None:
    status = GaudiInferenceStatus(replicas=1)
    await writer.write_status(memory.resource(theirs="stays"), status)
    await writer.write_status(memory.api.objects["GaudiInference", "tiny"], status)
    assert memory.api.objects["GaudiInference", "tiny"]["status"]["theirs"] == "stays"
    assert len(memory.writes) == 1


async def test_status_of_a_successor_is_unchanged(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    successor = memory.replace(resource)
    with pytest.raises(TransientError):
        await writer.write_status(resource, GaudiInferenceStatus(replicas=1))
    assert memory.api.get("GaudiInference", "tiny") == successor


async def test_status_of_a_deleted_resource_is_not_written(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    memory.api.remove("GaudiInference", "tiny")
    await writer.write_status(resource, GaudiInferenceStatus(replicas=1))
    assert memory.api.get("GaudiInference", "tiny") is None


async def test_refused_status_is_an_error(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    memory.answers = [ApiClientResponse(422, b"{}")]
    with pytest.raises(StalledError):
        await writer.write_status(resource, GaudiInferenceStatus(replicas=1))


async def test_time_of_the_last_status_write_is_kept_by_uid(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    assert writer.status_written_at(resource["metadata"]["uid"]) is None
    await writer.write_status(resource, GaudiInferenceStatus(replicas=1))
    assert writer.status_written_at(resource["metadata"]["uid"]) == LATER


async def test_status_write_times_are_kept_for_recent_resources(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    memory.answers = [ApiClientResponse(404, b"{}")] * 10_001
    for number in range(10_001):
        gone = {**resource, "metadata": {**resource["metadata"], "uid": str(number)}}
        await writer.write_status(gone, GaudiInferenceStatus(replicas=1))
    assert writer.status_written_at("0") is None
    assert writer.status_written_at("1") == LATER
    assert writer.status_written_at("10000") == LATER
