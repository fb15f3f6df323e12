"""One resource: the events that start a reconcile, how soon, and the state of the cluster that it decides on."""

import json
from datetime import datetime
from typing import Any

import pytest

from gaudi_operator.core.actions import Decision, SetGate
from gaudi_operator.core.names import GATE
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.status.status import STATUS_DELAY_SECONDS
from gaudi_operator.shell.client import ApiResponse
from gaudi_operator.shell.kinds import CONFIG_MAP, POD, RESOURCE, SERVICE
from gaudi_operator.shell.reconciling.slots import Rank
from gaudi_operator.shell.reconciling.triggers import FOLLOW_SECONDS, PODS_SECONDS
from gaudi_operator.shell.watching.store import Key
from tests.unit.operator.shell.memory import KEY, manifest
from tests.unit.operator.shell.reconciled import AWAY, Operator, made
from tests.world.api import Object
from tests.world.clock import moment


def test_resource_that_is_seen_is_looked_at_once(operator: Operator) -> None:
    operator.sees(operator.resource)
    operator.pass_time(3600)
    assert len(operator.decided) == 1


def test_news_in_one_moment_are_one_reconcile(operator: Operator) -> None:
    operator.sees(operator.resource)
    others = (operator.memory.exists(manifest(CONFIG_MAP, name), seen=False) for name in ("a", "b", "c"))
    operator.sees(*others)
    operator.pass_time(FOLLOW_SECONDS)
    assert len(operator.decided) == 2
    operator.pass_time(10)
    assert len(operator.decided) == 2


def serving_pod(operator: Operator) -> Object:
    """Its gate is open."""
    gate = {"type": GATE, "status": "True", "reason": "WarmedUp", "message": ""}
    return operator.memory.exists(manifest(POD, "a", spec={}, status={"conditions": [gate]}), seen=False)


def test_report_that_decides_is_looked_at_at_once(operator: Operator) -> None:
    operator.sees(operator.resource)
    operator.loop.call_soon(operator.controller.reported, KEY, True)
    operator.pass_time(0)
    assert len(operator.decided) == 2
    operator.loop.call_soon(operator.controller.reported, KEY, False)
    operator.pass_time(STATUS_DELAY_SECONDS - 0.1)
    assert len(operator.decided) == 2
    operator.pass_time(0.2)
    assert len(operator.decided) == 3


def test_status_waits_from_the_first_difference(operator: Operator) -> None:
    held = list[datetime | None]()

    def decide(observed: Observed) -> Decision:
        held.append(observed.status_held)
        since = observed.status_held or observed.now
        return Decision((), operator.status, status_held=since if len(held) < 3 else None)

    operator.decide = decide
    operator.sees(operator.resource)
    for _ in range(3):
        operator.pass_time(10)
        operator.loop.call_soon(operator.controller.wake, KEY)
        operator.pass_time(0)
    assert held == [None, moment(0), moment(0), None]


def test_start_is_over_when_all_were_looked_at(operator: Operator) -> None:
    operator.memory.store.unlisted = {(RESOURCE, None)}
    operator.memory.answers = [AWAY]
    assert operator.controller.why_not_ready() is None

    async def list_all() -> None:
        operator.controller.seen(operator.resource)
        operator.controller.listed(RESOURCE, None, [operator.resource["metadata"]["uid"]], 99)
        why = operator.controller.why_not_ready()
        assert why is not None
        assert why.endswith("0 of 1 are done")

    operator.loop.run_until_complete(list_all())
    operator.pass_time(0)
    assert operator.outcomes("transient") == 1
    assert operator.controller.why_not_ready() is None


def test_resource_is_looked_at_again_when_that_is_due(operator: Operator) -> None:
    operator.requeue_after = 30.0
    operator.sees(operator.resource)
    operator.pass_time(95)
    assert operator.decided == pytest.approx([0, 30, 60, 90])


def test_spec_that_changes_during_a_reconcile_is_looked_at(operator: Operator) -> None:
    """The answer to the write of the status has it first, and the watch's event is no news then."""
    edited = {**operator.resource, "spec": {**operator.resource["spec"], "replicas": 7}}
    seen: list[int | None] = []

    def decide(observed: Observed) -> Decision:
        seen.append(observed.resource["spec"].get("replicas"))
        if len(seen) == 1:
            operator.memory.api.put(edited, generation=2)
        return Decision((), operator.status, (), None)

    operator.decide = decide
    operator.sees(operator.resource)
    operator.pass_time(3600)
    assert seen == [None, 7]


def test_rest_of_a_decision_on_another_spec_is_not_done(operator: Operator) -> None:
    """Writes may take seconds, and a user may have thought better of it."""
    replicas, send, written = list[int | None](), operator.memory.send, list[str]()

    def decide(observed: Observed) -> Decision:
        replicas.append(observed.resource["spec"].get("replicas"))
        return Decision((made("a"), made("b")) if len(replicas) == 1 else (made("c"),), operator.status)

    async def changed_meanwhile(*request: Any) -> ApiResponse:
        if request[0] != "GET":
            written.append(request[1].partition("?")[0].rpartition("/")[2])
        if written == ["a"]:
            edited = {**operator.resource, "spec": {**operator.resource["spec"], "replicas": 7}}
            operator.controller.seen(operator.memory.api.put(edited, generation=2))
        return await send(*request)

    operator.decide = decide
    operator.memory.send = changed_meanwhile  # type: ignore[method-assign]
    operator.sees(operator.resource)
    operator.pass_time(1)
    assert (replicas, written) == ([None, 7], ["a", "c", "status"])


def keep_all_busy(operator: Operator) -> None:
    """Other resources have every slot."""
    for other in range(4):
        operator.loop.run_until_complete(operator.controller._slots.acquire(Key("others", str(other)), Rank.REST))


def test_picture_is_of_the_moment_when_its_turn_comes(operator: Operator) -> None:
    pictures = list[datetime]()

    def decide(observed: Observed) -> Decision:
        pictures.append(observed.now)
        return Decision((), operator.status)

    operator.decide = decide
    keep_all_busy(operator)
    operator.sees(operator.resource)
    operator.pass_time(10)
    assert pictures == []
    operator.loop.call_soon(operator.controller._slots.release)
    operator.pass_time(10)
    assert pictures == [moment(10)]


def test_pods_are_asked_for_a_spec_that_came_meanwhile(operator: Operator) -> None:
    operator.sees(operator.resource)
    operator.pass_time(10)
    keep_all_busy(operator)
    operator.sees(operator.memory.exists(manifest(CONFIG_MAP, "a"), seen=False))
    operator.pass_time(1)
    operator.sees(operator.memory.api.put({**operator.resource, "spec": {"replicas": 7}}, generation=2))
    renewed = list[Key]()

    async def renew(key: Key) -> None:
        renewed.append(key)

    operator.reports.renew = renew  # type: ignore[method-assign]
    operator.loop.call_soon(operator.controller._slots.release)
    operator.pass_time(10)
    assert renewed == [KEY]


def test_own_write_that_a_watch_shows_first_asks_for_nothing(operator: Operator) -> None:
    """A watch is often quicker than the answer."""
    operator.sees(operator.resource)
    operator.wanted = (made(),)
    send = operator.memory.send

    async def told_first(*request: Any) -> ApiResponse:
        answer = await send(*request)
        operator.controller.seen(json.loads(answer.text))
        return answer

    operator.memory.send = told_first  # type: ignore[method-assign]
    operator.sees(serving_pod(operator))
    operator.pass_time(PODS_SECONDS)
    decided = len(operator.decided)
    operator.wanted = ()
    operator.pass_time(3600)
    assert len(operator.decided) == decided


def test_pod_that_changed_before_its_gate_was_written_counts(operator: Operator) -> None:
    """The answer to the write of the gate has it first, and the watch's event is no news then."""
    pod = serving_pod(operator)
    operator.sees(operator.resource, pod)
    decided, send = len(operator.decided), operator.memory.send

    async def changed_before(*request: Any) -> ApiResponse:
        ready = {"type": "Ready", "status": "True"}
        operator.memory.api.put({**pod, "status": {**pod["status"], "conditions": [ready]}})
        operator.wanted = ()
        return await send(*request)

    operator.memory.send = changed_before  # type: ignore[method-assign]
    operator.wanted = (SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", ""),)
    operator.loop.call_soon(operator.controller.reported, KEY, True)
    operator.pass_time(3600)
    assert len(operator.decided) == decided + 2


def test_nothing_is_decided_before_every_kind_was_listed(operator: Operator) -> None:
    operator.memory.store.unlisted = {(POD, None)}
    operator.sees(operator.resource)
    assert not operator.decided


def test_last_list_begins_the_work(operator: Operator) -> None:
    operator.memory.store.unlisted = {(RESOURCE, None)}

    async def list_all() -> None:
        operator.controller.seen(operator.resource)
        operator.controller.listed(RESOURCE, None, [operator.resource["metadata"]["uid"]], 99)

    operator.loop.run_until_complete(list_all())
    operator.pass_time(0)
    assert len(operator.decided) == 1


def test_resource_that_is_gone_is_left_alone(operator: Operator) -> None:
    operator.requeue_after = 10.0
    operator.sees(operator.resource)

    async def gone() -> None:
        operator.controller.gone({**operator.resource, "metadata": {**operator.resource["metadata"]}})

    operator.loop.run_until_complete(gone())
    operator.pass_time(100)
    assert len(operator.decided) == 1


def test_no_write_starts_after_the_stop(operator: Operator) -> None:
    operator.requeue_after = 5.0
    operator.sees(operator.resource)

    async def stop() -> None:
        operator.controller.stop()
        operator.controller.seen(operator.memory.exists(manifest(CONFIG_MAP, "news"), seen=False))

    operator.loop.run_until_complete(stop())
    asked = len(operator.memory.asked)
    operator.pass_time(100)
    assert len(operator.memory.asked) == asked


def test_object_that_is_gone_makes_its_resource_doubtful(operator: Operator) -> None:
    child = operator.memory.exists(manifest(SERVICE, "a", operator.resource))
    operator.sees(operator.resource)
    operator.memory.store.maybe_deleted.clear()
    operator.loop.call_soon(operator.controller.gone, child)
    operator.pass_time(0)
    assert operator.memory.store.maybe_deleted == {KEY}
