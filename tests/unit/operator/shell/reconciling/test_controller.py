"""The reconciles of one resource: which events start a reconcile, how soon, and which state is decided on."""

import json
from datetime import datetime
from typing import Any

import pytest

from gaudi_operator.core.actions import Decision, SetGate
from gaudi_operator.core.names import GATE
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.status.status_builder import STATUS_DELAY_SECONDS
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import CONFIG_MAP, POD, RESOURCE, SERVICE
from gaudi_operator.shell.reconciling.slots import Rank
from gaudi_operator.shell.reconciling.triggers import FOLLOW_SECONDS, PODS_SECONDS
from gaudi_operator.shell.watching.store import StoreKey
from tests.unit.operator.shell.memory import KEY, manifest
from tests.unit.operator.shell.reconciled import AWAY, Operator, made
from tests.world.api import Object
from tests.world.clock import moment


def test_observed_resource_is_reconciled_once(operator: Operator) -> None:
    operator.observe_objects(operator.resource)
    operator.pass_time(3600)
    assert len(operator.decided) == 1


def test_simultaneous_changes_lead_to_one_reconcile(operator: Operator) -> None:
    operator.observe_objects(operator.resource)
    others = (operator.memory.exists(manifest(CONFIG_MAP, name), seen=False) for name in ("a", "b", "c"))
    operator.observe_objects(*others)
    operator.pass_time(FOLLOW_SECONDS)
    assert len(operator.decided) == 2
    operator.pass_time(10)
    assert len(operator.decided) == 2


def serving_pod(operator: Operator) -> Object:
    """Return a pod with an open gate."""
    gate = {"type": GATE, "status": "True", "reason": "WarmedUp", "message": ""}
    return operator.memory.exists(manifest(POD, "a", spec={}, status={"conditions": [gate]}), seen=False)


def test_decisive_report_is_reconciled_immediately(operator: Operator) -> None:
    operator.observe_objects(operator.resource)
    operator.loop.call_soon(operator.controller.handle_report, KEY, True)
    operator.pass_time(0)
    assert len(operator.decided) == 2
    operator.loop.call_soon(operator.controller.handle_report, KEY, False)
    operator.pass_time(STATUS_DELAY_SECONDS - 0.1)
    assert len(operator.decided) == 2
    operator.pass_time(0.2)
    assert len(operator.decided) == 3


def test_status_write_is_delayed_from_the_first_difference(operator: Operator) -> None:
    held = list[datetime | None]()

    def decide(observed: Observed) -> Decision:
        held.append(observed.status_held_since)
        since = observed.status_held_since or observed.now
        return Decision((), operator.status, status_held_since=since if len(held) < 3 else None)

    operator.decide = decide
    operator.observe_objects(operator.resource)
    for _ in range(3):
        operator.pass_time(10)
        operator.loop.call_soon(operator.controller.wake, KEY)
        operator.pass_time(0)
    assert held == [None, moment(0), moment(0), None]


def test_operator_is_ready_after_all_resources_were_reconciled(operator: Operator) -> None:
    operator.memory.store.unlisted = {(RESOURCE, None)}
    operator.memory.answers = [AWAY]
    assert operator.controller.why_not_ready() is None

    async def list_all() -> None:
        operator.controller.handle_change(operator.resource)
        operator.controller.handle_list_end(RESOURCE, None, [operator.resource["metadata"]["uid"]], 99)
        why = operator.controller.why_not_ready()
        assert why is not None
        assert why.endswith("0 of 1 done")

    operator.loop.run_until_complete(list_all())
    operator.pass_time(0)
    assert operator.outcomes("transient") == 1
    assert operator.controller.why_not_ready() is None


def test_resource_is_requeued_at_the_requested_time(operator: Operator) -> None:
    operator.requeue_after = 30.0
    operator.observe_objects(operator.resource)
    operator.pass_time(95)
    assert operator.decided == pytest.approx([0, 30, 60, 90])


def test_spec_change_during_a_reconcile_is_reconciled(operator: Operator) -> None:
    """The response to the status write delivers the new spec before the watch does. So the event is a duplicate."""
    edited = {**operator.resource, "spec": {**operator.resource["spec"], "replicas": 7}}
    seen: list[int | None] = []

    def decide(observed: Observed) -> Decision:
        seen.append(observed.resource["spec"].get("replicas"))
        if len(seen) == 1:
            operator.memory.api.put(edited, generation=2)
        return Decision((), operator.status, (), None)

    operator.decide = decide
    operator.observe_objects(operator.resource)
    operator.pass_time(3600)
    assert seen == [None, 7]


def test_remaining_actions_for_an_older_spec_are_not_performed(operator: Operator) -> None:
    """A write may take seconds, and the spec may change in the meantime."""
    replicas, send, written = list[int | None](), operator.memory.send, list[str]()

    def decide(observed: Observed) -> Decision:
        replicas.append(observed.resource["spec"].get("replicas"))
        return Decision((made("a"), made("b")) if len(replicas) == 1 else (made("c"),), operator.status)

    async def changed_meanwhile(*request: Any) -> ApiClientResponse:
        if request[0] != "GET":
            written.append(request[1].partition("?")[0].rpartition("/")[2])
        if written == ["a"]:
            edited = {**operator.resource, "spec": {**operator.resource["spec"], "replicas": 7}}
            operator.controller.handle_change(operator.memory.api.put(edited, generation=2))
        return await send(*request)

    operator.decide = decide
    operator.memory.send = changed_meanwhile  # type: ignore[method-assign]
    operator.observe_objects(operator.resource)
    operator.pass_time(1)
    assert (replicas, written) == ([None, 7], ["a", "c", "status"])


def occupy_all_slots(operator: Operator) -> None:
    """Let reconciles of other resources take all slots."""
    for other in range(4):
        operator.loop.run_until_complete(operator.controller._slots.acquire(StoreKey("others", str(other)), Rank.REST))


def test_snapshot_is_taken_when_the_reconcile_starts(operator: Operator) -> None:
    pictures = list[datetime]()

    def decide(observed: Observed) -> Decision:
        pictures.append(observed.now)
        return Decision((), operator.status)

    operator.decide = decide
    occupy_all_slots(operator)
    operator.observe_objects(operator.resource)
    operator.pass_time(10)
    assert pictures == []
    operator.loop.call_soon(operator.controller._slots.release)
    operator.pass_time(10)
    assert pictures == [moment(10)]


def test_reports_are_renewed_if_the_spec_changed_while_queued(operator: Operator) -> None:
    operator.observe_objects(operator.resource)
    operator.pass_time(10)
    occupy_all_slots(operator)
    operator.observe_objects(operator.memory.exists(manifest(CONFIG_MAP, "a"), seen=False))
    operator.pass_time(1)
    operator.observe_objects(operator.memory.api.put({**operator.resource, "spec": {"replicas": 7}}, generation=2))
    renewed = list[StoreKey]()

    async def renew(key: StoreKey) -> None:
        renewed.append(key)

    operator.reports.renew = renew  # type: ignore[method-assign]
    operator.loop.call_soon(operator.controller._slots.release)
    operator.pass_time(10)
    assert renewed == [KEY]


def test_own_write_observed_before_its_response_starts_no_reconcile(operator: Operator) -> None:
    """A watch event often arrives before the response to the write."""
    operator.observe_objects(operator.resource)
    operator.wanted = (made(),)
    send = operator.memory.send

    async def deliver_by_watch_first(*request: Any) -> ApiClientResponse:
        answer = await send(*request)
        operator.controller.handle_change(json.loads(answer.body))
        return answer

    operator.memory.send = deliver_by_watch_first  # type: ignore[method-assign]
    operator.observe_objects(serving_pod(operator))
    operator.pass_time(PODS_SECONDS)
    decided = len(operator.decided)
    operator.wanted = ()
    operator.pass_time(3600)
    assert len(operator.decided) == decided


def test_pod_change_before_its_gate_write_is_reconciled(operator: Operator) -> None:
    """The response to the gate write delivers the change before the watch does. So the watch event is a duplicate."""
    pod = serving_pod(operator)
    operator.observe_objects(operator.resource, pod)
    decided, send = len(operator.decided), operator.memory.send

    async def changed_before(*request: Any) -> ApiClientResponse:
        ready = {"type": "Ready", "status": "True"}
        operator.memory.api.put({**pod, "status": {**pod["status"], "conditions": [ready]}})
        operator.wanted = ()
        return await send(*request)

    operator.memory.send = changed_before  # type: ignore[method-assign]
    operator.wanted = (SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", ""),)
    operator.loop.call_soon(operator.controller.handle_report, KEY, True)
    operator.pass_time(3600)
    assert len(operator.decided) == decided + 2


def test_no_decision_before_every_kind_is_listed(operator: Operator) -> None:
    operator.memory.store.unlisted = {(POD, None)}
    operator.observe_objects(operator.resource)
    assert not operator.decided


def test_last_list_starts_reconciles(operator: Operator) -> None:
    operator.memory.store.unlisted = {(RESOURCE, None)}

    async def list_all() -> None:
        operator.controller.handle_change(operator.resource)
        operator.controller.handle_list_end(RESOURCE, None, [operator.resource["metadata"]["uid"]], 99)

    operator.loop.run_until_complete(list_all())
    operator.pass_time(0)
    assert len(operator.decided) == 1


def test_deleted_resource_is_not_reconciled(operator: Operator) -> None:
    operator.requeue_after = 10.0
    operator.observe_objects(operator.resource)

    async def gone() -> None:
        operator.controller.handle_deletion({**operator.resource, "metadata": {**operator.resource["metadata"]}})

    operator.loop.run_until_complete(gone())
    operator.pass_time(100)
    assert len(operator.decided) == 1


def test_no_write_starts_after_the_stop(operator: Operator) -> None:
    operator.requeue_after = 5.0
    operator.observe_objects(operator.resource)

    async def stop() -> None:
        operator.controller.stop()
        operator.controller.handle_change(operator.memory.exists(manifest(CONFIG_MAP, "news"), seen=False))

    operator.loop.run_until_complete(stop())
    requests = len(operator.memory.requests)
    operator.pass_time(100)
    assert len(operator.memory.requests) == requests


def test_deleted_object_marks_its_resource_as_maybe_deleted(operator: Operator) -> None:
    child = operator.memory.exists(manifest(SERVICE, "a", operator.resource))
    operator.observe_objects(operator.resource)
    operator.memory.store.maybe_deleted.clear()
    operator.loop.call_soon(operator.controller.handle_deletion, child)
    operator.pass_time(0)
    assert operator.memory.store.maybe_deleted == {KEY}
