"""`kubectl gaudi status`: one or two lines about the resource, and one row for each pod."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from gaudi_operator.api.v1alpha1.status import CapturedPercent, PodState
from gaudi_operator.cli.kubectl.status import COLUMNS, heading_lines, pod_notes, pod_rows, status_output
from gaudi_operator.core.text_formats import format_timestamp
from tests.unit.operator.cli.kubectl.kept import ADVICE, ADVISED, shown
from tests.unit.operator.core.resources import NOW

WARMS = ("Ready", False, "WarmingUp", "1 of 2 replicas serve; 1 warms up.")


def pod(**fields: Any) -> PodState:
    return PodState(**{"name": "a", "revision": "r", "phase": "Capturing", "gate": False, "ready": False, **fields})


def test_heading_has_phase_replicas_and_reason() -> None:
    first, second = heading_lines(shown(WARMS, phase="WarmingUp"), NOW)
    assert first == "models/tiny  WarmingUp  1/2 ready"
    assert second == "WarmingUp: 1 of 2 replicas serve; 1 warms up."


@pytest.mark.parametrize(("seconds", "left"), [(95, "1:35"), (-5, "0:00")])
def test_estimated_end_is_shown_as_remaining_time(seconds: int, left: str) -> None:
    warmup = {"percent": 40, "phase": "Capturing", "eta": format_timestamp(NOW + timedelta(seconds=seconds))}
    first = next(heading_lines(shown(WARMS, phase="WarmingUp", warmup=warmup), NOW))
    assert first.endswith(f"warm-up 40 %, about {left} left (an estimate)")


def test_completed_warm_up_has_no_estimated_end() -> None:
    warmup = {"percent": 100, "phase": "Serving", "eta": format_timestamp(NOW)}
    assert "estimate" not in next(heading_lines(shown(WARMS, warmup=warmup), NOW))


def test_heading_ends_with_the_advice() -> None:
    serves = ("Ready", True, "Serving", "All serve.")
    *_, last = heading_lines(shown(serves, phase="Serving", plan=ADVISED), NOW)
    assert last == ADVICE


def test_row_has_a_progress_bar_and_percentages() -> None:
    warm = pod(warmup_percent=45, captured_percent=CapturedPercent(prompt=62), restarts=1)
    (row,) = pod_rows([warm])
    assert dict(zip(COLUMNS, row, strict=True)) == {
        "POD": "a",
        "PHASE": "Capturing",
        "WARM-UP": "█████░░░░░░░  45 %",
        "PROMPT": "62 %",
        "DECODE": "-",
        "TRAFFIC": "no",
        "RESTARTS": "1",
    }


@pytest.mark.parametrize(
    ("gate", "ready", "word"), [(True, True, "yes"), (True, False, "gate open"), (False, False, "no")]
)
def test_traffic_column_depends_on_gate_and_readiness(gate: bool, ready: bool, word: str) -> None:
    (row,) = pod_rows([pod(gate=gate, ready=ready)])
    assert row[COLUMNS.index("TRAFFIC")] == word


def test_pod_name_is_never_truncated() -> None:
    out, name = StringIO(), f"{'long-' * 12}-3f9c01d2aa-x7k2p"
    shows = status_output(shown(WARMS, pods=[pod(name=name).model_dump(by_alias=True, mode="json")]))
    Console(file=out, width=80).print(shows)
    table = out.getvalue().splitlines()[3:]
    assert "".join(line.split(" ")[0] for line in table) == name
    assert "…" not in out.getvalue()


def test_heading_marks_simulated_engines() -> None:
    resource = shown(WARMS, phase="Serving")
    resource["spec"]["engine"] = {"name": "sim"}
    assert next(heading_lines(resource, NOW)).endswith("ready  simulated")
    resource["spec"]["engine"] = {"name": "vllm"}
    assert next(heading_lines(resource, NOW)).endswith("ready")


def test_equal_messages_of_waiting_pods_are_merged() -> None:
    text = {"message": "This is a simulation."}
    serving = pod(name="c", gate=True, ready=True, **text)
    assert list(pod_notes([pod(**text), pod(name="b", **text), serving])) == ["a, b: This is a simulation."]


def test_message_already_in_the_heading_is_omitted() -> None:
    assert not list(pod_notes([pod(message="no card is free")], sentence="Pod a is unschedulable: no card is free."))


def test_pod_messages_are_below_the_table() -> None:
    out = StringIO()
    waits = pod(message="finds no node").model_dump(by_alias=True, mode="json")
    Console(file=out, width=120).print(status_output(shown(WARMS, pods=[waits])))
    assert out.getvalue().splitlines()[-1] == "a: finds no node"
