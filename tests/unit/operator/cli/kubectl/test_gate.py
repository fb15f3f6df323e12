"""`kubectl gaudi gate open`: which gates it opens, and the sentence with which it refuses."""

from typing import Any

import pytest

from gaudi_operator.cli.kubectl.gate import gate_container_id, gate_patch, gate_to_open
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError
from gaudi_operator.core.names import GATE
from gaudi_operator.core.observed import ObservedReport
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from tests.support.builders import Object
from tests.unit.operator.core.pod_objects import gate_condition, pod
from tests.unit.operator.core.reports import PLAN, report
from tests.unit.operator.core.resources import NOW, resource

RECORD = f"8 of 8 prompt graphs captured and 8 of 8 decode graphs captured. Container c1, instance first, plan {PLAN}."


def warming_pod(**fields: Any) -> Object:
    """Return a pod whose readiness gate is closed."""
    return {**pod(**fields), "spec": {"readinessGates": [{"conditionType": GATE}]}}


def fetched(container: str = "c1", **fields: Any) -> ObservedReport:
    """Return a report of the given container."""
    return ObservedReport(container, NOW, report(**fields))


def test_gate_of_a_warm_pod_opens_with_the_operators_message() -> None:
    gate = gate_to_open(warming_pod(), fetched(), resource(), NOW)
    assert gate is not None
    assert (gate.open, gate.reason, gate.message) == (True, "WarmedUp", RECORD)


def test_patch_names_the_uid_and_only_the_gate() -> None:
    gate = gate_to_open(warming_pod(), fetched(), resource(), NOW)
    assert gate is not None
    patch = gate_patch(warming_pod(), gate, NOW)
    assert patch["metadata"] == {"uid": "uid-of-a"}
    assert [(condition["type"], condition["status"]) for condition in patch["status"]["conditions"]] == [(GATE, "True")]


def test_open_gate_of_the_same_container_is_left_alone() -> None:
    assert gate_to_open(warming_pod(conditions=(gate_condition(True, RECORD),)), fetched(), resource(), NOW) is None


def test_gate_of_an_earlier_container_is_judged_again() -> None:
    opened = warming_pod(container="c2", conditions=(gate_condition(True, RECORD),))
    gate = gate_to_open(opened, fetched("c2"), resource(), NOW)
    assert gate is not None
    assert "Container c2" in gate.message


def test_threshold_of_the_spec_applies() -> None:
    below = fetched(prompt=PhaseProgressReport(planned=8, warmed=8, captured=4, left_out_for_memory=4))
    lenient = resource(readiness={"minCapturedPromptPercent": 50})
    assert gate_to_open(warming_pod(), below, lenient, NOW) is not None


BELOW = fetched(prompt=PhaseProgressReport(planned=8, warmed=8, captured=4, left_out_for_memory=4))


@pytest.mark.parametrize(
    ("manifest", "answer", "spec", "words"),
    [
        (warming_pod(), fetched(phase=Phase.CAPTURING), {}, "The runtime is in phase Capturing"),
        (
            warming_pod(),
            BELOW,
            {"readiness": {"minCapturedPromptPercent": 51}},
            "4 of 8 prompt graphs (50 %) are captured",
        ),
        (warming_pod(), fetched(plan_hash="q" * 64), {}, "Its report is for plan qqqqqqqqqq"),
        (warming_pod(container="c2"), fetched("c1"), {}, "from a container that no longer runs"),
        (warming_pod(terminating=True), fetched(), {}, "it is terminating or has ended"),
        (pod(), fetched(), {}, f"it has no readiness gate {GATE}"),
        (warming_pod(), fetched(), {"readiness": {"onShortfall": "Wait"}}, "spec.readiness has values"),
    ],
)
def test_refusal_says_why_the_gate_stays_closed(
    manifest: Object, answer: ObservedReport, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(ResourceCommandError) as refused:
        gate_to_open(manifest, answer, resource(**spec), NOW)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("manifest", "container"),
    [
        (pod(container=None), ""),
        (pod(), "c1"),
        (pod(conditions=(gate_condition(False, "Closed."),)), "c1"),
    ],
)
def test_container_is_read_with_and_without_an_earlier_gate(manifest: Object, container: str) -> None:
    assert gate_container_id(manifest, NOW) == container
