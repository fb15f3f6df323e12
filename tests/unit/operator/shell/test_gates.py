"""Gates are written beside whatever else is done for their resource, each of them once."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Decision, Event, SetGate
from gaudi_operator.core.gate.condition import gate_condition, gate_status
from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.core.observed import Observed
from gaudi_operator.shell.client import Answer
from gaudi_operator.shell.kinds import POD, REPLICA_SET
from gaudi_operator.shell.reconciling.gates import Gates
from gaudi_operator.shell.reconciling.reconcile import FEW_PODS
from gaudi_operator.shell.watching.store import Key
from tests.builders import gaudi_inference
from tests.unit.operator.shell.memory import KEY, NAMESPACE, Memory, manifest
from tests.unit.operator.shell.reconciled import AWAY, REFUSED, Operator, made
from tests.world.api import Object
from tests.world.clock import moment


def test_gates_are_written_before_anything_else(operator: Operator) -> None:
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}), seen=False)
    operator.wanted = (made(), SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", "all is captured"))
    operator.sees(operator.resource)
    paths = [path for _, path in operator.memory.writes]
    assert [path.rpartition("/")[2] for path in paths] == ["status", "tiny", "status"]
    assert "/pods/a/" in paths[0]


def test_refused_gate_holds_no_other_up(operator: Operator) -> None:
    pods = [operator.memory.exists(manifest(POD, name, spec={}, status={}), seen=False) for name in ("a", "b")]
    operator.wanted = tuple(SetGate(each["metadata"]["name"], each["metadata"]["uid"], True, "W", "w") for each in pods)
    operator.memory.answers = [REFUSED]
    operator.sees(operator.resource)
    assert operator.memory.api.objects["Pod", "b"]["status"]["conditions"]
    assert operator.stalled() == "ApiRefused"


class Pod:
    """A pod whose gate a report opens. Decisions ask for it until they see it open, and tell of it."""

    def __init__(self, operator: Operator) -> None:
        """The operator has looked at it once, when there was nothing to do."""
        self.operator = operator
        self.manifest = operator.memory.exists(manifest(POD, "a", spec={}, status={}))
        operator.sees(operator.resource)
        operator.decide_gates = operator.decide = self.decide

    def decide(self, _: Observed) -> Decision:
        """The gate where it is still shut."""
        self.operator.decided.append(self.operator.loop.time())
        uid = self.manifest["metadata"]["uid"]
        shut = not self.operator.memory.store.gate_is_open(KEY, uid)
        gates = (SetGate("a", uid, True, "WarmedUp", "all is captured"),) if shut else ()
        return Decision(gates, self.operator.status, tuple(Event("Normal", "GateOpened", "") for _ in gates))

    def reports(self, seconds: float = 0.0) -> None:
        """It asks for its gate, and so much time passes."""
        self.operator.loop.call_soon(self.operator.reconciler.reported, KEY, True)
        self.operator.pass_time(seconds)

    def written(self) -> int:
        """How often its gate was written."""
        return sum("/pods/a/" in path for _, path in self.operator.memory.writes)


class Held(asyncio.Event):
    """Requests to `paths` have no answer until it is set."""

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self.paths = list[str]()


def hold(operator: Operator, part: str) -> Held:
    """Requests with that in their path are held."""
    answered, send = Held(), operator.memory.send

    async def hanging(method: str, path: str, *rest: Any) -> Answer:
        if part in path:
            answered.paths.append(path)
            await answered.wait()
        return await send(method, path, *rest)

    operator.memory.send = hanging  # type: ignore[method-assign]
    return answered


def test_gate_waits_for_no_reconcile(operator: Operator) -> None:
    pod = Pod(operator)
    pod.reports()
    assert pod.written() == 1
    assert [path for _, path in operator.memory.writes if path.endswith("/events")]


def test_gate_waits_for_no_status(operator: Operator) -> None:
    pod = Pod(operator)
    answered = hold(operator, "/gaudiinferences/")
    operator.status = GaudiInferenceStatus(replicas=2)
    operator.loop.call_soon(operator.reconciler.wake, KEY)
    operator.decide = operator._decide
    operator.pass_time(1)
    pod.reports()
    assert pod.written() == 1
    answered.set()


@pytest.mark.parametrize(("answers", "shown"), [([], 2), ([AWAY], 1)])
def test_status_tells_only_of_gates_that_were_written(
    operator: Operator, answers: list[Answer | OSError], shown: int
) -> None:
    pod = Pod(operator)
    answered = hold(operator, "/pods/")
    pod.reports()
    operator.status = GaudiInferenceStatus(replicas=2)
    operator.decide = operator._decide
    operator.loop.call_soon(operator.reconciler.wake, KEY)
    operator.pass_time(1)
    assert replicas(operator) == 1
    operator.status = GaudiInferenceStatus(replicas=1)
    operator.memory.answers = answers
    statuses = shown_of(operator)
    answered.set()
    operator.pass_time(1)
    assert max([1, *statuses]) == shown


def replicas(operator: Operator) -> int:
    """As its status shows them."""
    return int(operator.memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"])


def shown_of(operator: Operator) -> list[int]:
    """What every status says from now on."""
    found, send = list[int](), operator.memory.send

    async def noted(method: str, path: str, body: Any, *rest: Any) -> Answer:
        if "/gaudiinferences/" in path:
            found.append(body["status"]["replicas"])
        return await send(method, path, body, *rest)

    operator.memory.send = noted  # type: ignore[method-assign]
    return found


def test_gate_that_was_written_meanwhile_is_not_written_again(operator: Operator) -> None:
    pod = Pod(operator)
    pod.reports(3600)
    assert pod.written() == 1


def test_gate_on_its_way_is_not_written_twice(operator: Operator) -> None:
    pod = Pod(operator)
    answered = hold(operator, "/pods/")
    pod.reports()
    operator.loop.call_soon(operator.reconciler.wake, KEY)
    operator.pass_time(1)
    answered.set()
    operator.pass_time(60)
    assert pod.written() == 1


def opened(pod: Object) -> SetGate:
    """Its gate, open."""
    return SetGate(pod["metadata"]["name"], pod["metadata"]["uid"], True, "WarmedUp", "all is captured")


def test_gate_waits_for_no_answer_to_another(operator: Operator) -> None:
    pods = [operator.memory.exists(manifest(POD, name, spec={}, status={})) for name in "ab"]
    operator.sees(operator.resource)
    answered = hold(operator, "/pods/")
    for pod in pods:
        operator.decide_gates = lambda _, pod=pod: Decision((opened(pod),), operator.status)  # type: ignore[misc]
        operator.loop.call_soon(operator.reconciler.reported, KEY, True)
        operator.pass_time(0)
    assert [path.split("/")[-2] for path in map(without_query, answered.paths)] == ["a", "b"]
    answered.set()


def without_query(path: str) -> str:
    return path.partition("?")[0]


def test_gate_of_a_pod_waits_for_the_one_before_it(operator: Operator) -> None:
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}))
    operator.sees(operator.resource)
    answered = hold(operator, "/pods/")
    shut = replace(opened(pod), open=False)
    for gate in (opened(pod), shut):
        operator.decide_gates = lambda _, gate=gate: Decision((gate,), operator.status)  # type: ignore[misc]
        operator.loop.call_soon(operator.reconciler.reported, KEY, True)
        operator.pass_time(0)
    assert len(answered.paths) == 1
    operator.decide_gates = lambda _: Decision((shut,) if len(answered.paths) < 2 else (), operator.status)
    answered.set()
    operator.pass_time(0)
    assert not operator.memory.store.gate_is_open(KEY, pod["metadata"]["uid"])


def test_no_gate_is_sent_after_the_stop(operator: Operator) -> None:
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}))
    operator.sees(operator.resource)
    answered = hold(operator, "/pods/")
    for gate in (opened(pod), replace(opened(pod), open=False)):
        operator.decide_gates = lambda _, gate=gate: Decision((gate,), operator.status)  # type: ignore[misc]
        operator.loop.call_soon(operator.reconciler.reported, KEY, True)
        operator.pass_time(0)
    operator.loop.call_soon(operator.reconciler.stop)
    operator.pass_time(0)
    answered.set()
    operator.pass_time(60)
    assert len(answered.paths) == 1


def test_gate_on_its_way_counts_as_written() -> None:
    gates, memory = Gates(), Memory()
    pod, other = (memory.exists(manifest(POD, name, spec={}, status={})) for name in "ab")
    gates.send([opened(pod)])
    observed = Observed(gaudi_inference("tiny"), pods=(pod, other), now=moment(0))
    assert [gate_status(each) for each in gates.assumed(observed).pods] == ["True", None]
    gates.arrived([opened(pod)])
    assert [gate_status(each) for each in gates.assumed(observed).pods] == [None, None]


def test_gate_that_is_written_again_keeps_its_time() -> None:
    pod = Memory().exists(manifest(POD, "a", spec={}, status={}))
    first = gate_condition(pod, opened(pod), moment(0))
    pod = {**pod, "status": {"conditions": [first]}}
    assert gate_condition(pod, opened(pod), moment(60)) == first
    assert gate_condition(pod, replace(opened(pod), open=False), moment(60)) != first


def test_gate_refused_for_now_is_written_by_the_reconcile(operator: Operator) -> None:
    pod = Pod(operator)
    operator.memory.answers = [AWAY]
    pod.reports(60)
    assert operator.memory.store.gate_is_open(KEY, pod.manifest["metadata"]["uid"])


def test_defect_in_a_decision_on_gates_ends_nothing(operator: Operator) -> None:
    pod = Pod(operator)

    def broken(_: Observed) -> Decision:
        raise ZeroDivisionError

    operator.decide_gates = broken
    pod.reports(1)
    assert pod.written() == 1


def waiting(operator: Operator) -> Operator:
    """It has decided on a gate, and then wanted to know something."""
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}), seen=False)
    gate = SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", "all is captured")
    operator.decide = lambda _: Decision((gate,), operator.status, question="what is the plan like?")
    operator.sees(operator.resource)
    return operator


def test_gate_is_written_while_a_question_waits(operator: Operator) -> None:
    waiting(operator)
    assert [path for _, path in operator.memory.writes] == [POD.path(NAMESPACE, "a", "status")]
    assert [question for _, question, _ in operator.asked] == ["what is the plan like?"]


def test_gate_is_told_of_while_a_question_waits(operator: Operator) -> None:
    gate = Event("Normal", "GateOpened", "all is captured")
    operator.decide = lambda _: Decision((), operator.status, (gate,), question="what is the plan like?")
    operator.sees(operator.resource)
    assert [each["reason"] for each in operator.memory.api.kind("Event")] == ["GateOpened"]


def test_answered_question_wakes_its_resource(operator: Operator) -> None:
    [(key, _, wake)] = waiting(operator).asked
    operator.decide = operator._decide
    operator.loop.call_soon(wake, key)
    operator.pass_time(0)
    assert len(operator.decided) == 1
    assert operator.memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 1


def test_long_decision_holds_no_other_resource_up(operator: Operator) -> None:
    memory, begun, other = operator.memory, threading.Event(), threading.Event()
    many = memory.exists(gaudi_inference("many", NAMESPACE))
    workload = memory.exists(of_many(manifest(REPLICA_SET, "many-r1", owner=many)))
    for number in range(FEW_PODS + 1):
        memory.exists(of_many(manifest(POD, f"many-{number}", owner=workload, spec={}, status={})))

    def decide(observed: Observed) -> Decision:
        if len(observed.pods) > FEW_PODS:
            begun.set()
            assert other.wait(10)
        elif begun.wait(10):
            other.set()
        return Decision((), operator.status)

    async def both() -> None:
        operator.reconciler.wake(Key(NAMESPACE, "many"))
        operator.reconciler.wake(KEY)
        assert await asyncio.to_thread(other.wait, 20)
        operator.reconciler.stop()

    operator.decide = decide
    memory.store.put(operator.resource)
    asyncio.run(both())
    assert operator.outcomes("bug") == 0


def of_many(child: Object) -> Object:
    child["metadata"]["labels"][NAME_LABEL] = "many"
    return child
