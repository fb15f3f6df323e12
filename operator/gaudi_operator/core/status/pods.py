"""The rows of status.pods, one per pod. Until a report arrives, a row keeps the figures of the written status."""

from collections.abc import Mapping

from gaudi_operator.api.v1alpha1.status import CapturedPercent, PodState
from gaudi_operator.core.gate.judgement import RECOMPILING
from gaudi_operator.core.gate.thresholds import explain_threshold_shortfall
from gaudi_operator.core.pods.pod_progress import captured_progress_percent, warmup_progress_percent
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.slow_bucket import describe_slow_bucket
from gaudi_operator.core.pods.start_delays import (
    SCHEDULING_GATED,
    describe_delaying_scheduling_gates,
    is_delayed_by_scheduling_gates,
    scheduling_delayed_since,
)
from gaudi_operator.core.rendering.pod_volumes import describe_fetch_progress
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import Phase

_RUNTIME_PHASES = frozenset(Phase)
MAX_TEXT = 1024
MAX_WORD = 32


def pod_states(state: State) -> tuple[PodState, ...]:
    """Return one row per active pod, worst pod first. Unready pods and closed gates precede others.

    Rows with the same state are sorted by warm-up progress and name.
    """
    previous_rows = {row.name: row for row in state.previous_status.pods}
    rows = [_row(pod, previous_rows, state) for pod in state.active_pods]
    return tuple(sorted(rows, key=lambda row: (row.ready, row.gate, row.warmup_percent, row.name)))


def _row(pod: PodView, previous_rows: Mapping[str, PodState], state: State) -> PodState:
    previous_row = previous_rows.get(pod.name) if pod.container is not None and pod.container.running else None
    numbers = {} if previous_row is None else {key: getattr(previous_row, key) for key in _NUMBERS}
    if report := pod.report:
        numbers = {
            "warmup_percent": warmup_progress_percent(report),
            "captured_percent": CapturedPercent(
                prompt=captured_progress_percent(report.prompt), decode=captured_progress_percent(report.decode)
            ),
            "recompiles_since_ready": report.recompiles_since_ready,
        }
    return PodState(
        name=pod.name,
        revision=pod.revision,
        phase=_phase(pod, previous_row)[:MAX_WORD],
        gate=pod.is_gate_open,
        ready=pod.is_ready,
        restarts=pod.container.restarts if pod.container else 0,
        last_termination=state.terminations.get(pod.name),
        message=(_message(pod, state) or "")[:MAX_TEXT] or None,
        **numbers,
    )


_NUMBERS = ("warmup_percent", "captured_percent", "recompiles_since_ready")


def _phase(pod: PodView, previous_row: PodState | None) -> str:
    if pod.report:
        return pod.report.phase.value
    if scheduling_delayed_since(pod):
        return SCHEDULING_GATED if is_delayed_by_scheduling_gates(pod) else "Unschedulable"
    if pod.container is None:
        return pod.phase
    if not pod.container.running:
        return pod.container.waiting_reason or "Ended"
    # Ignore a phase that is not a runtime phase. It was written before the container started.
    return previous_row.phase if previous_row is not None and previous_row.phase in _RUNTIME_PHASES else "Starting"


def _message(pod: PodView, state: State) -> str | None:
    """Return a message about the cause that prevents the pod from serving, or None if no cause is known."""
    if pod.report and pod.report.failure:
        return pod.report.failure.message
    if (
        pod.report
        and not pod.is_gate_open
        and pod.report.phase is Phase.SERVING
        and (shortfall := explain_threshold_shortfall(pod.report, state.inference.spec.readiness))
    ):
        return shortfall[1]
    if pod.gate and pod.gate.reason == RECOMPILING:
        return pod.gate.message
    if message := describe_slow_bucket(pod, state.deadlines):
        return message
    if pod.report and pod.report.warnings:
        return pod.report.warnings[-1]
    if pod.report and pod.report.phase is Phase.FETCHING and pod.report.fetch:
        return describe_fetch_progress(pod.report.fetch)
    if pod.container and pod.container.waiting_message:
        return pod.container.waiting_message
    if is_delayed_by_scheduling_gates(pod):
        return f"Held by {describe_delaying_scheduling_gates(pod)}."
    if scheduling_delayed_since(pod):
        return pod.conditions["PodScheduled"].message
    return pod.ignored_reason
