"""`kubectl gaudi status`: two lines about the resource, one row for each pod, and the next command."""

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gaudi_operator.api.v1alpha1.status import CapturedPercent, PodState
from gaudi_operator.cli.kubectl.explanation import explain
from gaudi_operator.cli.kubectl.status import (
    COLUMNS,
    add_leader_to_status,
    status_output,
    status_pod_rows,
    view_status,
)
from gaudi_operator.cli.kubectl.terminal import terminal_paragraphs
from gaudi_operator.core.text_formats import format_timestamp
from tests.support.builders import Object
from tests.unit.operator.cli.kubectl.kept import shown
from tests.unit.operator.core.resources import NOW

WARMS = ("Ready", False, "WarmingUp", "1 of 2 replicas serve; 1 warms up.")
READY = ("Ready", True, "Serving", "All 2 replicas serve revision a.")


def heading(resource: Object) -> tuple[str, ...]:
    return view_status(resource, NOW, explain(resource)).heading


def printed(resource: Object, width: int = 120) -> list[str]:
    """Return the printed lines."""
    out = StringIO()
    Console(file=out, width=width).print(status_output(view_status(resource, NOW, explain(resource))))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def pod(**fields: Any) -> PodState:
    return PodState(**{"name": "a", "revision": "r", "phase": "Capturing", "gate": False, "ready": False, **fields})


def test_heading_has_replicas_and_reason() -> None:
    first, second = heading(shown(WARMS))
    assert first == "models/tiny  1/2 ready"
    assert second == "WarmingUp: 1 of 2 replicas serve; 1 warms up."


@pytest.mark.parametrize(("seconds", "left"), [(95, "1:35"), (-5, "0:00")])
def test_estimated_end_is_shown_as_remaining_time(seconds: int, left: str) -> None:
    warmup = {"percent": 40, "eta": format_timestamp(NOW + timedelta(seconds=seconds))}
    first, _ = heading(shown(WARMS, warmup=warmup))
    assert first.endswith(f"warm-up 40 %, about {left} left (an estimate)")


def test_completed_warm_up_has_no_estimated_end() -> None:
    warmup = {"percent": 100, "eta": format_timestamp(NOW)}
    assert "estimate" not in heading(shown(WARMS, warmup=warmup))[0]


def unchanged(condition: tuple[str, bool, str, str]) -> Object:
    """Return a resource that has not changed for 12 minutes."""
    resource = shown(condition)
    resource["metadata"]["managedFields"] = [{"time": format_timestamp(NOW - timedelta(minutes=12))}]
    return resource


def test_waiting_resource_shows_the_minutes_without_change() -> None:
    assert heading(unchanged(WARMS))[0] == "models/tiny  1/2 ready  no change for 12 minutes"


def test_ready_resource_shows_no_minutes_without_change() -> None:
    assert "no change" not in heading(unchanged(READY))[0]


def test_missing_leader_comes_before_the_last_status() -> None:
    found = add_leader_to_status(explain(shown(WARMS)), "has no holder", "ops/gaudi")
    assert (found.ready, found.reason) == (False, "NoLeader")
    assert found.sentence == (
        "No operator leads: the Lease ops/gaudi has no holder. Ready pods keep serving, but no gate opens and no "
        "rollout continues. The last status was WarmingUp: 1 of 2 replicas serve; 1 warms up."
    )
    assert found.next == (
        "kubectl get lease,pods -n ops",
        "kubectl logs -n ops -l app.kubernetes.io/name=gaudi-operator --tail=50",
    )


def test_spec_that_a_leader_ignores_shows_the_operators_log() -> None:
    found = add_leader_to_status(explain(shown(WARMS, observedGeneration=1)), None, "ops/gaudi")
    assert found.reason == "NotObserved"
    assert found.next[-1] == "kubectl logs -n ops -l app.kubernetes.io/name=gaudi-operator --tail=50"


def test_output_ends_with_the_next_command() -> None:
    assert printed(shown(WARMS))[-2:] == ["next:", "  kubectl gaudi status tiny -n models --watch"]


def test_output_of_a_ready_resource_helps_with_slow_requests() -> None:
    assert printed(shown(READY))[-2:] == ["if requests are slow:", "  kubectl gaudi plan learn tiny -n models"]


def test_wrapped_lines_keep_their_indent() -> None:
    out = StringIO()
    for each in terminal_paragraphs(["evidence:", f"  pod a: {'word ' * 12}"]):
        Console(file=out, width=40).print(each)
    title, *below = out.getvalue().splitlines()
    assert title == "evidence:"
    assert len(below) == 2
    assert all(line.startswith("  ") and len(line.rstrip()) <= 40 for line in below)


def test_row_has_a_progress_bar_and_percentages() -> None:
    warm = pod(warmup_percent=45, captured_percent=CapturedPercent(prompt=62), restarts=1)
    (row,) = status_pod_rows([warm])
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
    (row,) = status_pod_rows([pod(gate=gate, ready=ready)])
    assert row[COLUMNS.index("TRAFFIC")] == word


def test_pod_name_is_never_truncated() -> None:
    name = f"{'long-' * 12}-3f9c01d2aa-x7k2p"
    lines = printed(shown(WARMS, pods=[pod(name=name).model_dump(by_alias=True, mode="json")]), width=80)
    table = lines[3 : lines.index("next:")]
    assert "".join(line.split(" ")[0] for line in table) == name
    assert "…" not in "".join(lines)


def test_heading_marks_simulated_engines() -> None:
    resource = shown(WARMS)
    resource["spec"]["engine"] = {"name": "sim"}
    assert heading(resource)[0].endswith("ready  simulated")
    resource["spec"]["engine"] = {"name": "vllm"}
    assert heading(resource)[0].endswith("ready")


def test_pod_messages_are_below_the_table() -> None:
    waits = pod(name="b", revision="a", message="finds no node").model_dump(by_alias=True, mode="json")
    lines = printed(shown(WARMS, pods=[waits]))
    assert lines[lines.index("evidence:") + 1] == "  pod b: finds no node"


def test_page_shows_the_output_of_a_rollback() -> None:
    page = (Path(__file__).parents[5] / "docs" / "how-to" / "troubleshoot.md").read_text()
    old, new = "2f6e99798b", "3f9c01d2aa"
    failed = {"name": new, "number": 2, "phase": "RolledBack", "reason": "CapturedBelowThreshold"}
    sentence = f"Revision {new} failed: 11 of 24 prompt graphs are captured. Revision {old} serves."
    captured = CapturedPercent(prompt=100, decode=100)
    serving = pod(name=f"search-{old}-x7k2p", revision=old, phase="Serving", gate=True, ready=True, warmup_percent=100)
    resource = shown(
        ("Ready", False, "RolledBack", sentence),
        ("Stalled", True, "RolledBack", sentence),
        revisions=[{**failed, "message": "13 graphs did not fit into the memory."}],
        pods=[serving.model_copy(update={"captured_percent": captured}).model_dump(by_alias=True, mode="json")],
    )
    resource["spec"]["replicas"] = 1
    resource["metadata"] |= {
        "name": "search",
        "managedFields": [{"time": format_timestamp(NOW - timedelta(minutes=12))}],
    }
    assert "```text\n" + "\n".join(printed(resource)) + "\n```" in page
