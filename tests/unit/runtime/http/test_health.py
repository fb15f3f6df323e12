"""The decisions behind /livez and /readyz."""

import pytest

from gaudi_runtime.contract.report import Phase, PhaseProgressReport, RuntimeFailureReport, WarmupReport
from gaudi_runtime.http.status_api import why_not_alive, why_not_ready


def report(phase: Phase, since_progress: float = 0.0, failure: RuntimeFailureReport | None = None) -> WarmupReport:
    return WarmupReport(
        instance="i",
        sequence=1,
        plan_hash="0" * 64,
        phase=phase,
        since_progress_seconds=since_progress,
        failure=failure,
    )


def test_progress_within_the_stall_timeout_is_alive() -> None:
    assert why_not_alive(report(Phase.COMPILING, 30), stall_timeout=30, heartbeat_seconds=0) is None


def test_stall_beyond_the_timeout_is_not_alive() -> None:
    assert why_not_alive(report(Phase.COMPILING, 31), stall_timeout=30, heartbeat_seconds=0) == (
        "Start-up has made no progress in phase Compiling for 31 s, but the stall timeout is 30 s."
    )


def test_message_of_a_stall_names_phase_and_bucket() -> None:
    stuck = report(Phase.CAPTURING, 31).model_copy(
        update={"decode": PhaseProgressReport(planned=1, current=(8, 1, 64))}
    )
    said = why_not_alive(stuck, stall_timeout=30, heartbeat_seconds=0)
    assert said
    assert "in phase Capturing at decode bucket (8, 1, 64) for 31 s" in said


def test_failed_start_is_alive() -> None:
    assert why_not_alive(report(Phase.FAILED, 9999), stall_timeout=1, heartbeat_seconds=0) is None


@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.DRAINING])
def test_stalled_engine_is_not_alive(phase: Phase) -> None:
    assert why_not_alive(report(phase), stall_timeout=1, heartbeat_seconds=61) == (
        "The engine's loop has not run for 61 s, but the limit is 60 s."
    )


def test_idle_engine_is_alive() -> None:
    assert why_not_alive(report(Phase.SERVING), stall_timeout=1, heartbeat_seconds=0) is None


def test_serving_is_ready() -> None:
    assert why_not_ready(report(Phase.SERVING), is_closing=False) is None


def test_serving_while_closing_is_not_ready() -> None:
    assert why_not_ready(report(Phase.SERVING), is_closing=True) is not None


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.SERVING}))
def test_any_phase_but_serving_is_not_ready(phase: Phase) -> None:
    assert why_not_ready(report(phase), is_closing=False) is not None


def test_failure_is_reported_with_its_message() -> None:
    failure = RuntimeFailureReport(reason="ModelNotFound", message="no such folder")
    assert why_not_ready(report(Phase.FAILED, failure=failure), is_closing=False) == (
        "Start-up failed (ModelNotFound): no such folder"
    )
