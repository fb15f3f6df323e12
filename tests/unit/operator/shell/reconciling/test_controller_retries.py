"""Refused requests are shown in the status and retried later. Failed reconciles are retried with growing delays."""

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.actions import Decision, Event, SetGate
from gaudi_operator.core.gate.condition import GATE
from gaudi_operator.core.observed import Observed
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import CONFIG_MAP, POD, SERVICE
from gaudi_operator.shell.reconciling.triggers import FOLLOW_SECONDS
from tests.unit.operator.shell.memory import KEY, manifest
from tests.unit.operator.shell.reconciled import AWAY, Operator, made


def test_refusal_stops_the_actions_and_is_in_the_status(operator: Operator) -> None:
    operator.memory.exists(manifest(SERVICE, "tiny"), seen=False)
    operator.wanted = (made(), made("other"))
    operator.observe_objects(operator.resource)
    assert operator.stalled() == "NameTaken"
    assert operator.memory.api.get("Service", "other") is None


def test_refused_request_is_not_repeated_with_the_next_change(operator: Operator) -> None:
    operator.memory.exists(manifest(SERVICE, "tiny"), seen=False)
    operator.wanted = (made(),)
    operator.observe_objects(operator.resource)
    looks = operator.memory.requests.count(("GET", SERVICE.path(*KEY)))
    operator.observe_objects(operator.memory.exists(manifest(CONFIG_MAP, "news"), seen=False))
    assert operator.memory.requests.count(("GET", SERVICE.path(*KEY))) == looks


def test_refused_request_causes_no_tight_loop(operator: Operator) -> None:
    operator.memory.exists(manifest(SERVICE, "tiny"), seen=False)
    operator.wanted, operator.requeue_after = (made(),), 0.2
    operator.observe_objects(operator.resource)
    operator.pass_time(60)
    assert len(operator.decided) < 60


def test_refused_request_is_repeated_later(operator: Operator) -> None:
    foreign = operator.memory.exists(manifest(SERVICE, "tiny"), seen=False)
    operator.wanted = (made(),)
    operator.observe_objects(operator.resource)
    operator.memory.api.remove("Service", foreign["metadata"]["name"])
    operator.pass_time(5)
    assert operator.memory.api.objects["Service", "tiny"]["spec"] == {"port": 1}


def test_refused_request_is_repeated_with_increasing_delays(operator: Operator) -> None:
    operator.memory.exists(manifest(SERVICE, "tiny"), seen=False)
    operator.wanted = (made(),)
    operator.observe_objects(operator.resource)
    assert sent_within(operator, 1) >= 4
    assert sent_within(operator, 9) >= 9
    assert 1 <= sent_within(operator, 1) <= 2


def sent_within(operator: Operator, minutes: int) -> int:
    """Return the number of attempts. Each attempt starts with a read of the Service."""
    before = operator.memory.requests.count(("GET", SERVICE.path(*KEY)))
    operator.pass_time(60 * minutes)
    return operator.memory.requests.count(("GET", SERVICE.path(*KEY))) - before


def test_failed_reconcile_is_retried_with_increasing_delays(operator: Operator) -> None:
    operator.memory.answers = [AWAY] * 6
    operator.observe_objects(operator.resource)
    operator.pass_time(60)
    waits = [after - before for before, after in zip(operator.decided, operator.decided[1:], strict=False)]
    assert len(waits) == 6
    assert waits[0] <= 0.25
    assert waits[-1] >= 4
    assert operator.outcomes("transient") == 6


def test_success_resets_the_retry_delay(operator: Operator) -> None:
    operator.memory.answers = [AWAY] * 6
    operator.observe_objects(operator.resource)
    operator.pass_time(60)
    operator.memory.answers = [AWAY]
    operator.status = GaudiInferenceStatus(replicas=2)
    operator.observe_objects(operator.memory.exists(manifest(CONFIG_MAP, "news"), seen=False))
    operator.pass_time(FOLLOW_SECONDS + 0.25)
    assert operator.memory.api.objects["GaudiInference", "tiny"]["status"]["replicas"] == 2


def test_unanswered_gate_write_ends_the_reconcile(operator: Operator) -> None:
    pod = operator.memory.exists(manifest(POD, "a", spec={}, status={}), seen=False)
    operator.wanted = (SetGate("a", pod["metadata"]["uid"], True, "WarmedUp", "all is captured"), made())
    operator.memory.answers = [AWAY]
    operator.memory.exists(manifest(SERVICE, "tiny", operator.resource))
    operator.observe_objects(operator.resource)
    assert operator.outcomes("transient") == 1
    assert len(operator.memory.writes) == 1


def test_changes_do_not_shorten_the_delay_after_a_failure(operator: Operator) -> None:
    operator.memory.answers = [ApiClientResponse(429, b"{}", "20")]
    operator.observe_objects(operator.resource)
    operator.observe_objects(operator.memory.exists(manifest(CONFIG_MAP, "news"), seen=False))
    operator.pass_time(19)
    assert len(operator.decided) == 1
    operator.pass_time(2)
    assert len(operator.decided) == 2


def test_ended_container_ends_the_delay_after_a_failure(operator: Operator) -> None:
    operator.memory.answers = [ApiClientResponse(429, b"{}", "20")]
    operator.observe_objects(operator.resource)
    gate = {"type": GATE, "status": "True"}
    operator.observe_objects(
        operator.memory.exists(manifest(POD, "a", spec={}, status={"conditions": [gate]}), seen=False)
    )
    assert len(operator.decided) == 2


def test_failed_reconcile_writes_no_status_and_no_events(operator: Operator) -> None:
    operator.events = (Event("Normal", "RolloutDone", "done"),)
    operator.wanted = (made(),)
    operator.memory.answers = [AWAY]
    operator.observe_objects(operator.resource)
    assert "status" not in operator.memory.api.objects["GaudiInference", "tiny"]
    assert operator.publisher.count_waiting() == 0


def test_exception_in_a_decision_is_counted_and_retried(operator: Operator) -> None:
    decide = operator.decide

    def once(_: Observed) -> Decision:
        operator.decide = decide
        raise ZeroDivisionError

    operator.decide = once
    operator.observe_objects(operator.resource)
    assert operator.outcomes("bug") == 1
    operator.pass_time(1)
    assert len(operator.decided) == 1
