"""A reconcile writes each gate once, before it writes other objects."""

import asyncio
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Decision, Event, SetGate
from gaudi_operator.core.admission.engine_settings import engine_policy_check
from gaudi_operator.core.gate.condition import gate_condition_status
from gaudi_operator.core.observed import Observed
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import POD
from tests.unit.operator.core.resources import inference
from tests.unit.operator.shell.memory import KEY, NAMESPACE, manifest
from tests.unit.operator.shell.reconciled import AWAY, REFUSED, Operator, made
from tests.world.api import Object

CHECK = engine_policy_check(inference())


def test_gates_are_written_before_anything_else(operator: Operator) -> None:
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}), seen=False)
    operator.wanted = (made(), SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", "all is captured"))
    operator.observe_objects(operator.resource)
    paths = [path for _, path in operator.memory.writes]
    assert [path.rpartition("/")[2] for path in paths] == ["status", "tiny", "status"]
    assert "/pods/a/" in paths[0]


def test_refused_gate_does_not_delay_others(operator: Operator) -> None:
    pods = [operator.memory.exists(manifest(POD, name, spec={}, status={}), seen=False) for name in ("a", "b")]
    operator.wanted = tuple(SetGate(each["metadata"]["name"], each["metadata"]["uid"], True, "W", "w") for each in pods)
    operator.memory.answers = [REFUSED]
    operator.observe_objects(operator.resource)
    assert operator.memory.api.objects["Pod", "b"]["status"]["conditions"]
    assert operator.stalled() == "ApiRefused"


def reported(operator: Operator, seconds: float = 0.0) -> None:
    """Deliver a pod's report that affects its gate, and advance the clock."""
    operator.loop.call_soon(operator.controller.handle_report, KEY, True)
    operator.pass_time(seconds)


def gates_written(operator: Operator) -> int:
    """Return the number of requests that wrote a gate."""
    return sum("/pods/" in path for _, path in operator.memory.writes)


def opens_gate(operator: Operator) -> None:
    """Let decisions open the gate of pod `a` until the operator observes the open gate."""
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}))
    operator.observe_objects(operator.resource)

    def decide(observed: Observed) -> Decision:
        shut = gate_condition_status(observed.pods[0] if observed.pods else pod) != "True"
        shut = shut and not operator.memory.store.gate_is_open(KEY, pod["metadata"]["uid"])
        return Decision((opened(pod),) if shut else (), operator.status)

    operator.decide = decide


def opened(pod: Object) -> SetGate:
    """Return the action that opens the gate of a pod."""
    return SetGate(pod["metadata"]["name"], pod["metadata"]["uid"], True, "WarmedUp", "all is captured")


def test_gate_is_written_once(operator: Operator) -> None:
    opens_gate(operator)
    reported(operator, 3600)
    assert gates_written(operator) == 1


def test_unanswered_gate_is_written_again(operator: Operator) -> None:
    opens_gate(operator)
    operator.memory.answers = [AWAY]
    reported(operator, 60)
    assert gates_written(operator) == 2


def test_report_during_a_reconcile_starts_another_one(operator: Operator) -> None:
    opens_gate(operator)
    decide, operator.decide = operator.decide, operator._decide
    operator.status = GaudiInferenceStatus(replicas=2)
    answered = hold(operator, "/gaudiinferences/")
    operator.loop.call_soon(operator.controller.wake, KEY)
    operator.pass_time(1)
    operator.decide = decide
    reported(operator)
    assert gates_written(operator) == 0
    operator.loop.call_soon(answered.set)
    operator.pass_time(0)
    assert gates_written(operator) == 1


def hold(operator: Operator, part: str) -> asyncio.Event:
    """Hold requests with `part` in their path until the event is set."""
    answered, send = asyncio.Event(), operator.memory.send

    async def hanging(method: str, path: str, *rest: Any) -> ApiClientResponse:
        if part in path:
            await answered.wait()
        return await send(method, path, *rest)

    operator.memory.send = hanging  # type: ignore[method-assign]
    return answered


def test_no_gate_is_written_after_the_stop(operator: Operator) -> None:
    opens_gate(operator)
    operator.loop.call_soon(operator.controller.stop)
    reported(operator, 60)
    assert gates_written(operator) == 0


def waiting(operator: Operator) -> Operator:
    """Let decisions set a gate and then wait for the check of a policy."""
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}), seen=False)
    gate = SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", "all is captured")
    operator.decide = lambda _: Decision((gate,), operator.status, pending_check=CHECK)
    operator.observe_objects(operator.resource)
    return operator


def test_gate_is_written_while_a_check_waits(operator: Operator) -> None:
    waiting(operator)
    assert [path for _, path in operator.memory.writes] == [POD.path(NAMESPACE, "a", "status")]
    assert [check for _, check, _ in operator.queued_checks] == [CHECK]


def test_gate_event_is_published_while_a_check_waits(operator: Operator) -> None:
    gate = Event("Normal", "GateOpened", "all is captured")
    operator.decide = lambda _: Decision((), operator.status, (gate,), pending_check=CHECK)
    operator.observe_objects(operator.resource)
    assert [each["reason"] for each in operator.memory.api.kind("Event")] == ["GateOpened"]


def test_checked_policy_starts_a_reconcile_of_its_resource(operator: Operator) -> None:
    [(key, _, wake)] = waiting(operator).queued_checks
    operator.decide = operator._decide
    operator.loop.call_soon(wake, key)
    operator.pass_time(0)
    assert len(operator.decided) == 1
    assert operator.memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 1
