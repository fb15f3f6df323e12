"""Every write is for one object and no successor of its name, is made once, and its answer is what comes next."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gaudi_operator.api.v1alpha1.status import Condition, GaudiInferenceStatus, PodState
from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Apply, Delete, SetDeletionCost, SetGate
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, FIELD_MANAGER, GATE, REMOVED_FIRST
from gaudi_operator.errors import Stalled, Transient, Waiting
from gaudi_operator.shell.client import ApiResponse
from gaudi_operator.shell.kinds import POD, SERVICE
from gaudi_operator.shell.writing.apply import DELETION_COST_MANAGER, GATE_MANAGER, GONE_SECONDS, Writer
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
    """A Service of the resource."""
    return memory.exists(manifest(SERVICE, "tiny", memory.resource(), spec={"port": 1}))


@pytest.fixture
def pod(memory: Memory) -> Object:
    """A pod with a node and no gate yet."""
    return memory.exists(manifest(POD, "a", spec={"terminationGracePeriodSeconds": 30}, status={"phase": "Running"}))


def deletion(live: Object) -> Delete:
    return Delete(live["apiVersion"], live["kind"], live["metadata"]["name"], live["metadata"]["uid"], "not needed")


def gate(pod: Object, is_open: bool = True) -> SetGate:
    return SetGate(pod["metadata"]["name"], pod["metadata"]["uid"], is_open, "WarmedUp", "all is captured")


def cost(pod: Object, removed_first: bool) -> SetDeletionCost:
    return SetDeletionCost(pod["metadata"]["name"], pod["metadata"]["uid"], "r", removed_first, "it goes")


def asking_for(port: int) -> Apply:
    return Apply(manifest(SERVICE, "tiny", spec={"port": port}), "another port")


async def test_deleted_object_is_gone_and_forgotten(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, deletion(service))
    assert memory.api.get("Service", "tiny") is None
    assert memory.store.get(KEY, SERVICE, "tiny") is None


async def test_deletion_of_what_is_gone_is_forgotten(memory: Memory, writer: Writer, service: Object) -> None:
    memory.api.remove("Service", "tiny")
    await writer.perform(KEY, deletion(service))
    assert memory.store.get(KEY, SERVICE, "tiny") is None


async def test_deletion_spares_a_successor_of_the_name(memory: Memory, writer: Writer, service: Object) -> None:
    successor = memory.replace(service)
    with pytest.raises(Transient):
        await writer.perform(KEY, deletion(service))
    assert memory.api.get("Service", "tiny") == successor


async def test_deletion_of_what_no_watch_shows_any_more_works(memory: Memory, writer: Writer, service: Object) -> None:
    memory.store.remove(service)
    await writer.perform(KEY, deletion(service))
    assert memory.api.get("Service", "tiny") is None


async def test_deletion_lets_the_pods_of_an_object_end_behind_it(
    memory: Memory, writer: Writer, service: Object
) -> None:
    await writer.perform(KEY, deletion(service))
    [(_, options)] = memory.said
    assert options["propagationPolicy"] == "Background"


async def test_object_that_ends_slowly_stays_known(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, deletion(pod))
    known = memory.store.get(KEY, POD, "a")
    assert known
    assert "deletionTimestamp" in known["metadata"]


async def test_gate_is_a_condition_of_the_pod(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, gate(pod))
    assert condition(memory.api.objects["Pod", "a"], GATE) == {
        "type": GATE,
        "status": "True",
        "reason": "WarmedUp",
        "message": "all is captured",
        "lastTransitionTime": "2026-08-01T12:30:00Z",
    }


async def test_gate_of_a_successor_stays_as_it_is(memory: Memory, writer: Writer, pod: Object) -> None:
    successor = memory.replace(pod)
    with pytest.raises(Transient):
        await writer.perform(KEY, gate(pod))
    assert memory.api.get("Pod", "a") == successor


async def test_gate_of_a_pod_that_is_gone_is_dropped(memory: Memory, writer: Writer, pod: Object) -> None:
    memory.api.remove("Pod", "a")
    await writer.perform(KEY, gate(pod))
    assert memory.api.get("Pod", "a") is None


@pytest.mark.parametrize(("is_open", "status"), [(True, "True"), (False, "False")])
@pytest.mark.parametrize("before", ["True", "False"])
async def test_gate_keeps_its_time_while_its_status_stays(
    memory: Memory, writer: Writer, pod: Object, before: str, is_open: bool, status: str
) -> None:
    known = {"type": GATE, "status": before, "reason": "Old", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    seen = memory.exists({**pod, "status": {"phase": "Running", "conditions": [known]}})
    await writer.perform(KEY, gate(seen, is_open))
    found = condition(memory.api.objects["Pod", "a"], GATE)
    assert found["status"] == status
    assert (found["lastTransitionTime"] == "2020-01-01T00:00:00Z") == (status == before)


async def test_gate_leaves_the_conditions_of_the_kubelet(memory: Memory, writer: Writer, pod: Object) -> None:
    ready = {"type": "Ready", "status": "False"}
    await writer.perform(KEY, gate(memory.exists({**pod, "status": {"phase": "Running", "conditions": [ready]}})))
    assert condition(memory.api.objects["Pod", "a"], "Ready") == ready


async def test_cost_is_given_and_taken_back(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, cost(pod, removed_first=True))
    annotations = memory.api.objects["Pod", "a"]["metadata"]["annotations"]
    assert annotations[DELETION_COST_ANNOTATION] == str(REMOVED_FIRST)
    await writer.perform(KEY, cost(pod, removed_first=False))
    assert DELETION_COST_ANNOTATION not in memory.api.objects["Pod", "a"]["metadata"].get("annotations", {})


async def test_cost_spares_a_successor_of_the_name(memory: Memory, writer: Writer, pod: Object) -> None:
    successor = memory.replace(pod)
    with pytest.raises(Transient):
        await writer.perform(KEY, cost(pod, removed_first=True))
    assert memory.api.get("Pod", "a") == successor


async def test_answer_is_known_before_a_watch_shows_it(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, asking_for(2))
    assert memory.store.get(KEY, SERVICE, "tiny") == memory.api.get("Service", "tiny")
    assert memory.api.objects["Service", "tiny"]["spec"] == {"port": 2}


async def test_known_object_is_applied_without_a_look(memory: Memory, writer: Writer, service: Object) -> None:
    await writer.perform(KEY, asking_for(2))
    assert [method for method, _ in memory.asked] == ["PATCH"]


async def test_child_is_made_in_the_namespace_of_its_resource(memory: Memory, writer: Writer) -> None:
    memory.resource()
    desired = manifest(SERVICE, "tiny")
    del desired["metadata"]["namespace"]
    await writer.perform(KEY, Apply(desired, "new"))
    assert memory.store.get(KEY, SERVICE, "tiny")


async def test_each_purpose_has_a_field_manager_that_insists(memory: Memory, writer: Writer, pod: Object) -> None:
    resource = memory.resource()
    await writer.perform(KEY, asking_for(1))
    await writer.perform(KEY, gate(pod))
    await writer.perform(KEY, cost(pod, removed_first=True))
    await writer.show(resource, GaudiInferenceStatus(replicas=1))
    queries = [query for (method, _), (query, _) in zip(memory.asked, memory.said, strict=True) if method == "PATCH"]
    managers = (FIELD_MANAGER, GATE_MANAGER, DELETION_COST_MANAGER, FIELD_MANAGER)
    assert queries == [{"fieldManager": manager, "force": "true"} for manager in managers]


async def test_write_names_its_object_whole(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, gate(pod))
    await writer.perform(KEY, cost(pod, removed_first=True))
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": NAMESPACE, "name": "a"}}
    for _, body in memory.said:
        assert merged(whole, body) == body


async def test_fields_of_others_stay(memory: Memory, writer: Writer, service: Object) -> None:
    memory.exists({**service, "spec": {"port": 1, "clusterIP": "10.0.0.1"}})
    await writer.perform(KEY, asking_for(2))
    assert memory.api.objects["Service", "tiny"]["spec"] == {"port": 2, "clusterIP": "10.0.0.1"}


@pytest.mark.parametrize("seen", [True, False])
async def test_foreign_object_of_the_name_is_not_taken_over(memory: Memory, writer: Writer, seen: bool) -> None:
    memory.resource()
    foreign = memory.exists(manifest(SERVICE, "tiny", spec={"port": 9}), seen=seen)
    with pytest.raises(Stalled) as refused:
        await writer.perform(KEY, asking_for(1))
    assert refused.value.reason == "NameTaken"
    assert memory.api.get("Service", "tiny") == foreign


async def test_successor_of_an_own_object_is_not_taken_over(memory: Memory, writer: Writer, service: Object) -> None:
    successor = memory.replace(service, spec={"port": 9})
    with pytest.raises(Transient):
        await writer.perform(KEY, asking_for(2))
    assert memory.api.get("Service", "tiny") == successor


async def test_nothing_that_is_written_steers_a_terminal(memory: Memory, writer: Writer, pod: Object) -> None:
    await writer.perform(KEY, replace(gate(pod), message="a\x1b]52;c;b\na"))
    assert condition(memory.api.objects["Pod", "a"], GATE)["message"] == "a\\x1b]52;c;b a"


async def test_status_steers_no_terminal(memory: Memory, writer: Writer) -> None:
    row = PodState(name="a", revision="r1", phase="Ended", gate=False, ready=False, last_error="\x1b[2J")
    await writer.show(memory.resource(), GaudiInferenceStatus(pods=(row,)))
    [shown] = memory.api.objects["GaudiInference", "tiny"]["status"]["pods"]
    assert shown["lastError"] == "\\x1b[2J"


async def test_own_object_that_no_watch_has_shown_is_applied(memory: Memory, writer: Writer) -> None:
    memory.exists(manifest(SERVICE, "tiny", memory.resource(), spec={"port": 9}), seen=False)
    await writer.perform(KEY, asking_for(1))
    assert memory.api.objects["Service", "tiny"]["spec"] == {"port": 1}


async def test_new_object_is_one_request(memory: Memory, writer: Writer) -> None:
    memory.resource()
    await writer.perform(KEY, asking_for(1))
    assert [method for method, _ in memory.asked] == ["PATCH"]
    assert memory.store.get(KEY, SERVICE, "tiny") == memory.api.get("Service", "tiny")


async def test_name_that_is_free_again_is_tried_again(memory: Memory, writer: Writer) -> None:
    memory.resource()
    memory.answers = [ApiResponse(409, b'{"reason": "Conflict"}')]
    with pytest.raises(Transient):
        await writer.perform(KEY, asking_for(1))
    assert memory.api.get("Service", "tiny") is None


async def test_other_failure_of_a_new_object_asks_for_no_owner(memory: Memory, writer: Writer) -> None:
    memory.resource()
    memory.answers = [ApiResponse(503, b"{}")]
    with pytest.raises(Transient):
        await writer.perform(KEY, asking_for(1))
    assert [method for method, _ in memory.asked] == ["PATCH"]


@pytest.mark.parametrize("successor", [False, True])
async def test_nothing_is_made_for_a_resource_that_is_gone(memory: Memory, writer: Writer, successor: bool) -> None:
    resource = memory.resource()
    memory.store.mark_maybe_deleted(SERVICE, KEY)
    if successor:
        memory.replace(resource)
    else:
        memory.api.remove(resource["kind"], "tiny")
    with pytest.raises(Waiting) as waiting:
        await writer.check_still_exists(KEY, [asking_for(1)])
    assert waiting.value.reason == "ResourceGone"
    assert waiting.value.seconds == GONE_SECONDS
    assert str(waiting.value).endswith(" was deleted: nothing is made for it any more.")


async def test_nothing_is_made_for_a_resource_that_went_unseen(memory: Memory, writer: Writer) -> None:
    memory.store.remove(memory.resource())
    with pytest.raises(Waiting):
        await writer.check_still_exists(KEY, [asking_for(1)])


async def test_resource_that_has_lost_something_is_looked_at_once(memory: Memory, writer: Writer) -> None:
    memory.resource()
    memory.store.mark_maybe_deleted(SERVICE, KEY)
    await writer.check_still_exists(KEY, [asking_for(1)])
    await writer.check_still_exists(KEY, [asking_for(1)])
    assert [method for method, _ in memory.asked] == ["GET"]


async def test_new_resource_is_not_looked_at(memory: Memory, writer: Writer) -> None:
    memory.resource()
    await writer.check_still_exists(KEY, [asking_for(1)])
    assert not memory.asked


async def test_resource_is_not_looked_at_for_a_change(memory: Memory, writer: Writer, service: Object) -> None:
    memory.store.mark_maybe_deleted(SERVICE, KEY)
    await writer.check_still_exists(KEY, [asking_for(2), deletion(service)])
    assert not memory.asked


async def test_status_is_written_once(memory: Memory, writer: Writer) -> None:
    resource, status = memory.resource(), GaudiInferenceStatus(replicas=2)
    await writer.show(resource, status)
    await writer.show(memory.api.objects["GaudiInference", "tiny"], status)
    assert len(memory.writes) == 1


async def test_status_stands_as_kubernetes_writes_it(memory: Memory, writer: Writer) -> None:
    await writer.show(memory.resource(), SETTLED)
    shown = memory.api.objects["GaudiInference", "tiny"]["status"]
    assert shown["observedGeneration"] == 3
    assert {"message", "capturedPercent"}.isdisjoint(shown["pods"][0])


async def test_status_that_stands_is_not_written_after_a_restart(memory: Memory, writer: Writer) -> None:
    await writer.show(memory.resource(), SETTLED)
    successor = Writer(memory.cluster, memory.store, CLOCK)
    await successor.show(memory.api.objects["GaudiInference", "tiny"], SETTLED)
    assert len(memory.writes) == 1


async def test_changed_status_is_written(memory: Memory, writer: Writer) -> None:
    await writer.show(memory.resource(), GaudiInferenceStatus(replicas=1))
    await writer.show(memory.api.objects["GaudiInference", "tiny"], GaudiInferenceStatus(replicas=2))
    assert memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 2


async def test_status_that_somebody_has_changed_is_written_again(memory: Memory, writer: Writer) -> None:
    await writer.show(memory.resource(), GaudiInferenceStatus(replicas=1))
    live = memory.api.objects["GaudiInference", "tiny"]
    await writer.show(memory.exists({**live, "status": {"replicas": 9}}), GaudiInferenceStatus(replicas=1))
    assert memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 1


async def test_status_with_fields_of_others_is_written_once(memory: Memory, writer: Writer) -> None:
    status = GaudiInferenceStatus(replicas=1)
    await writer.show(memory.resource(theirs="stays"), status)
    await writer.show(memory.api.objects["GaudiInference", "tiny"], status)
    assert memory.api.objects["GaudiInference", "tiny"]["status"]["theirs"] == "stays"
    assert len(memory.writes) == 1


async def test_status_of_a_successor_stays_as_it_is(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    successor = memory.replace(resource)
    with pytest.raises(Transient):
        await writer.show(resource, GaudiInferenceStatus(replicas=1))
    assert memory.api.get("GaudiInference", "tiny") == successor


async def test_resource_that_is_gone_shows_nothing(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    memory.api.remove("GaudiInference", "tiny")
    await writer.show(resource, GaudiInferenceStatus(replicas=1))
    assert memory.api.get("GaudiInference", "tiny") is None


async def test_refused_status_is_an_error(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    memory.answers = [ApiResponse(422, b"{}")]
    with pytest.raises(Stalled):
        await writer.show(resource, GaudiInferenceStatus(replicas=1))


async def test_time_of_the_last_status_is_kept_by_uid(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    assert writer.status_written_at(resource["metadata"]["uid"]) is None
    await writer.show(resource, GaudiInferenceStatus(replicas=1))
    assert writer.status_written_at(resource["metadata"]["uid"]) == LATER


async def test_times_of_statuses_are_kept_for_the_latest_resources(memory: Memory, writer: Writer) -> None:
    resource = memory.resource()
    memory.answers = [ApiResponse(404, b"{}")] * 10_001
    for number in range(10_001):
        gone = {**resource, "metadata": {**resource["metadata"], "uid": str(number)}}
        await writer.show(gone, GaudiInferenceStatus(replicas=1))
    assert writer.status_written_at("0") is None
    assert writer.status_written_at("1") == LATER
    assert writer.status_written_at("10000") == LATER
