"""The opening and closing of gates, with the exact messages that are written to the pod."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.warmup import Readiness, Shortfall
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate import condition as gate_conditions
from gaudi_operator.core.gate import judgement as gates
from gaudi_operator.core.gate.condition import (
    GateConditionInstance,
    conditions_except_gate,
    gate_condition_instance,
    pods_with_gate_conditions,
)
from gaudi_operator.core.gate.judgement import REOPEN_SECONDS
from gaudi_operator.core.gate.thresholds import describe_threshold_shortfalls, shortfalls
from gaudi_operator.core.names import GATE
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView, read_pod_views
from gaudi_operator.core.text_formats import format_timestamp
from gaudi_runtime.contract.report import (
    BucketPhase,
    Phase,
    PhaseProgressReport,
    RuntimeFailureReport,
    SkippedBucketReport,
)
from tests.support.builders import Object
from tests.unit.operator.core.pod_objects import LONG_AGO, condition, gate_condition, pod, view
from tests.unit.operator.core.reports import PLAN, report
from tests.unit.operator.core.resources import NOW, resource

STRICT = Readiness(min_captured_prompt_percent=100, min_captured_decode_percent=100)
LENIENT = STRICT.model_copy(update={"on_shortfall": Shortfall.SERVE_AND_WARN})
SHORT = report(prompt=PhaseProgressReport(planned=24, warmed=24, captured=15, left_out_for_memory=9))
(BELOW,) = shortfalls(SHORT, STRICT)
SHORT_OF_BOTH = report(
    prompt=PhaseProgressReport(planned=24, warmed=24, captured=15, left_out_for_memory=9),
    decode=PhaseProgressReport(planned=8, warmed=8, captured=7, left_out_for_memory=1),
    skipped=(SkippedBucketReport(phase=BucketPhase.DECODE, bucket=(4, 1, 64), reason="no memory was left"),),
)
RECORD = f"Container c1, instance first, plan {PLAN}."
FUTURE = format_timestamp(NOW + timedelta(minutes=5))
OPEN = gate_condition(True, f"8 of 8 prompt graphs captured and 8 of 8 decode graphs captured. {RECORD}")


def gate(open_: bool, reason: str, message: str) -> SetGate:
    return SetGate("a", "uid-of-a", open_, reason, message)


def judge(pod: PodView, readiness: Readiness) -> SetGate | None:
    """Return the gate decision for the pod at NOW."""
    return gates.judge_gate(pod, readiness, Deadlines(NOW))


def opened(**pod_fields: Any) -> PodView:
    return view(pod(conditions=(OPEN,), **pod_fields))


def test_gate_of_a_warm_pod_opens_with_a_record() -> None:
    expected = f"8 of 8 prompt graphs captured and 8 of 8 decode graphs captured. {RECORD}"
    assert judge(view(report=report()), STRICT) == gate(True, "WarmedUp", expected)


def test_record_is_read_back_from_the_pod() -> None:
    assert gate_condition_instance(opened()) == GateConditionInstance("c1", "first", PLAN)


def test_pod_without_a_gate_condition_has_no_record() -> None:
    assert gate_condition_instance(view()) is None


def test_open_gate_of_the_same_instance_is_not_written_again() -> None:
    assert judge(view(pod(conditions=(OPEN,)), report()), STRICT) is None


def test_open_gate_without_a_record_gets_one() -> None:
    action = judge(view(pod(conditions=(gate_condition(True, "by hand"),)), report()), STRICT)
    assert action is not None
    assert action.open


@pytest.mark.parametrize(("seconds", "opens"), [(REOPEN_SECONDS - 0.1, False), (REOPEN_SECONDS, True)])
def test_recently_closed_gate_stays_closed_briefly(seconds: float, opens: bool) -> None:
    closed = gate_condition(False, "not yet", since=format_timestamp(NOW))
    deadlines = Deadlines(NOW + timedelta(seconds=seconds))
    found = gates.judge_gate(view(pod(conditions=(closed,)), report()), STRICT, deadlines)
    assert (found is not None and found.open) is opens
    assert (deadlines.requeue_after is None) is opens


def test_gate_closed_in_the_future_opens_at_once() -> None:
    closed = gate_condition(False, "not yet", since=FUTURE)
    assert judge(view(pod(conditions=(closed,)), report()), STRICT) is not None


def test_gate_opened_in_the_future_gets_the_current_time() -> None:
    manifest = pod(conditions=({**OPEN, "lastTransitionTime": FUTURE},))
    action = judge(view(manifest, report()), STRICT)
    assert action
    assert action.is_rewrite
    assert gate_conditions.gate_condition(manifest, action, NOW) == {
        **OPEN,
        "lastTransitionTime": format_timestamp(NOW),
    }


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.SERVING])
def test_gate_of_a_pod_that_is_not_serving_stays_closed(phase: Phase) -> None:
    assert judge(view(report=report(phase)), STRICT) is None


def test_gate_below_a_threshold_stays_closed() -> None:
    assert judge(view(report=SHORT), STRICT) is None


def test_gate_below_a_threshold_opens_with_warning_if_configured() -> None:
    assert judge(view(report=SHORT), LENIENT) == gate(
        True,
        "OpenedBelowThreshold",
        f"Serves below the thresholds, because spec.readiness.onShortfall is ServeAndWarn: {BELOW}. {RECORD}",
    )


def test_gate_opens_without_a_warm_up() -> None:
    cold = report(prompt=PhaseProgressReport(planned=8), warmup_skipped=True)
    assert judge(view(report=cold), STRICT) == gate(True, "WarmedUp", f"Warm-up is switched off. {RECORD}")


def test_report_of_another_plan_does_not_open_the_gate() -> None:
    assert judge(view(pod(plan_hash="q" * 64), report()), STRICT) is None


def test_ignored_report_of_another_plan_has_the_reason() -> None:
    assert view(pod(plan_hash="q" * 64), report()).ignored_reason == (
        "Its report is for plan pppppppppp, but the pod was created for plan qqqqqqqqqq: its image may have another "
        "release of the runtime."
    )


def test_report_of_another_container_does_not_open_the_gate() -> None:
    assert judge(view(pod(), report(), container_id="c0"), STRICT) is None


def test_gate_of_a_terminating_pod_is_unchanged() -> None:
    assert judge(view(pod(terminating=True), report()), STRICT) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_gate_of_an_ended_pod_is_unchanged(phase: str) -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    assert judge(opened(phase=phase, state=ended), STRICT) is None


def test_gate_of_an_unreachable_pod_stays_open() -> None:
    assert judge(opened(), STRICT) is None


def test_unreadable_report_does_not_change_the_gate() -> None:
    unreadable = view(pod(conditions=(OPEN,)), None, ignored_reason="The report is too large.")
    assert judge(unreadable, STRICT) is None


def test_report_of_another_plan_does_not_close_the_gate() -> None:
    assert judge(view(pod(conditions=(OPEN,), plan_hash="q" * 64), report()), STRICT) is None


def test_gate_closes_immediately_after_a_container_restart() -> None:
    assert judge(opened(container="c2"), STRICT) == gate(
        False, "ContainerRestarted", "Container c2 has replaced container c1 and must warm up first."
    )


def test_late_report_of_the_previous_container_closes_the_gate() -> None:
    late = view(pod(conditions=(OPEN,), container="c2"), report(), container_id="c1")
    action = judge(late, STRICT)
    assert action is not None
    assert action.reason == "ContainerRestarted"


def test_ready_pod_with_a_new_container_keeps_its_gate() -> None:
    conditions = (OPEN, condition("Ready", True))
    assert judge(view(pod(conditions=conditions, container="c2")), STRICT) is None


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, "Error, exit code 1"),
        ({"waiting": {}}, "not running"),
    ],
)
def test_gate_closes_immediately_without_a_running_container(state: dict[str, Any], word: str) -> None:
    assert judge(opened(state=state), STRICT) == gate(
        False, "ContainerNotRunning", f"The container is not running ({word}). The next container must warm up first."
    )


def test_gate_of_a_restarted_warm_container_has_a_new_record() -> None:
    action = judge(view(pod(conditions=(OPEN,), container="c2"), report(), container_id="c2"), STRICT)
    assert action is not None
    assert action.open
    assert action.message.endswith(f"Container c2, instance first, plan {PLAN}.")


@pytest.mark.parametrize("other", [{"instance": "second"}, {"plan_hash": "q" * 64}])
def test_new_warm_instance_or_plan_is_recorded(other: dict[str, str]) -> None:
    warm = report(**other)
    action = judge(view(pod(conditions=(OPEN,), plan_hash=warm.plan_hash), warm), STRICT)
    assert action is not None
    assert (action.open, action.reason) == (True, "WarmedUp")
    assert action.message.endswith(f"Container c1, instance {warm.instance}, plan {warm.plan_hash}.")


def test_gate_closes_for_a_warming_new_instance() -> None:
    warming = report(Phase.COMPILING, instance="second")
    assert judge(view(pod(conditions=(OPEN,)), warming), STRICT) == gate(
        False, "NotServing", "The runtime is in phase Compiling."
    )


def test_gate_closes_with_the_message_of_a_failed_runtime() -> None:
    failure = RuntimeFailureReport(reason="ModelNotFound", message="Folder /models/tiny does not exist.")
    failed = view(pod(conditions=(OPEN,)), report(Phase.FAILED, failure=failure))
    assert judge(failed, STRICT) == gate(False, "ModelNotFound", "Folder /models/tiny does not exist.")


def test_gate_closes_below_a_threshold() -> None:
    assert judge(view(pod(conditions=(OPEN,)), SHORT), STRICT) == gate(
        False,
        "CapturedBelowThreshold",
        f"Warm-up ended below the thresholds: {BELOW}.",
    )


def test_closed_gate_names_all_shortfalls_and_skipped_buckets() -> None:
    action = judge(view(pod(conditions=(OPEN,)), SHORT_OF_BOTH), STRICT)
    said = "; ".join(shortfalls(SHORT_OF_BOTH, STRICT))
    (left_out,) = describe_threshold_shortfalls(SHORT_OF_BOTH, STRICT)
    assert action
    assert action.message == f"Warm-up ended below the thresholds: {said}. {left_out}"


def test_gate_opened_with_warning_names_all_shortfalls() -> None:
    action = judge(view(report=SHORT_OF_BOTH), LENIENT)
    assert action
    assert "; ".join(shortfalls(SHORT_OF_BOTH, LENIENT)) in action.message


@pytest.mark.parametrize(("was", "since"), [(True, LONG_AGO), (False, format_timestamp(NOW))])
def test_gate_keeps_its_transition_time_while_its_status_is_unchanged(was: bool, since: str) -> None:
    before = view(pod(conditions=(gate_condition(was, since=LONG_AGO),)))
    (after,) = pods_with_gate_conditions([before], [gate(True, "WarmedUp", RECORD)], NOW)
    found = after.conditions[GATE].since
    assert found
    assert format_timestamp(found) == since


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("before", [(), (gate_condition(True),), (gate_condition(False),)])
def test_decided_gate_is_applied_to_pods_before_it_is_written(before: tuple[Object, ...], opens: bool) -> None:
    manifest = pod(conditions=(condition("Ready", True), *before))
    observed = Observed(resource(), pods=(manifest,), now=NOW + timedelta(milliseconds=1500))
    decided = SetGate(manifest["metadata"]["name"], manifest["metadata"]["uid"], opens, "Odd", "On\ntwo lines.")
    expected = pods_with_gate_conditions(read_pod_views(observed), [decided], observed.now)
    conditions = [*conditions_except_gate(manifest), gate_conditions.gate_condition(manifest, decided, observed.now)]
    written = {**manifest, "status": {**manifest["status"], "conditions": conditions}}
    assert read_pod_views(replace(observed, pods=(written,))) == expected
    assert expected[0].is_gate_open is opens


def test_closed_gate_is_not_closed_again() -> None:
    closed = gate_condition(False, "It compiles.", "NotServing")
    assert judge(view(pod(conditions=(closed,)), report(Phase.COMPILING)), STRICT) is None


def test_last_report_of_an_ended_container_closes_the_gate() -> None:
    ended = opened(state={"terminated": {"reason": "Error", "exitCode": 1}})
    seen = view(pod(conditions=(OPEN,), state={"terminated": {"reason": "Error", "exitCode": 1}}), report())
    assert (seen.report, seen.container and seen.container.id) == (None, "c1")
    for each in (ended, seen):
        action = judge(each, STRICT)
        assert action is not None
        assert (action.open, action.reason) == (False, "ContainerNotRunning")
