"""The status of a resource, built from the state of one reconcile, with throttled writes.

warmup_figures.py selects the pods for the figures. `status.revisions` contains the stored revisions, newest first, with
number, age and phase.
"""

from datetime import datetime
from typing import Any

from gaudi_operator.api.v1alpha1.status import (
    MAX_PODS,
    MAX_REVISIONS,
    GaudiInferenceStatus,
    PodState,
    RevisionPhase,
    Revisions,
    RevisionStatus,
)
from gaudi_operator.core.children.manifests import endpoint_url
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.rendering.metadata import traffic_labels
from gaudi_operator.core.rollout.backoff import BackOffRecord
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status import warmup_figures
from gaudi_operator.core.status.condition_table import judge_condition_table
from gaudi_operator.core.status.conditions import TRUE, expected_ready_replicas
from gaudi_operator.core.status.pods import pod_states
from gaudi_operator.core.status.warmup_figures import warmup_recipe_cache_state

STATUS_DELAY_SECONDS, MANY_PODS_SECONDS, PODS_A_SECOND = 2.0, 5.0, 4
"""The minimum and maximum delay of a status write in seconds, and the number of pods that add one second.

The delay combines changes that follow each other, such as a container start, a gate and readiness, into one write. The
status of many pods is long and changes all the time, so its delay is longer.
"""

FIRST_REPORTS_SECONDS = 10.0
"""Seconds that a new leader waits for the first report of every running pod.

Otherwise each start would write the status of every resource twice.
"""


def status_write_delay(pod_count: int) -> float:
    """Return the delay of status writes in seconds for a resource with `pod_count` pods."""
    return max(STATUS_DELAY_SECONDS, min(pod_count / PODS_A_SECOND, MANY_PODS_SECONDS))


def build_status(state: State) -> GaudiInferenceStatus:
    """Return the current status of the resource, built from the state."""
    rows = pod_states(state)
    status = GaudiInferenceStatus(
        observed_generation=state.inference.identity.generation,
        conditions=judge_condition_table(state),
        replicas=len(state.active_pods),
        updated_replicas=len(state.updated_pods),
        ready_replicas=len(state.serving_pods),
        expected_ready_replicas=expected_ready_replicas(state),
        selector=",".join(f"{key}={value}" for key, value in traffic_labels(state.inference).items()),
        revision=Revisions(current=state.current_name, stable=state.stable_name),
        revisions=build_revision_states(state),
        endpoint=endpoint_url(state.inference) if state.current_name else None,
        plan=state.plan,
        recipe_cache=warmup_recipe_cache_state(state),
        pods=rows[:MAX_PODS],
        **_collect_figures(state, rows),
    )
    # If the spec cannot be read, keep the fields that are derived from it.
    kept_names = _FIELDS_OF_SPEC if state.inference.unreadable else ()
    return status.model_copy(update={name: getattr(state.previous_status, name) for name in kept_names})


_FIELDS_OF_SPEC = ("selector", "endpoint", "recipe_cache")


def _collect_figures(state: State, rows: tuple[PodState, ...]) -> dict[str, Any]:
    """Return the figures for the status. Until a pod has reported, the written figures stay."""
    pods = warmup_figures.pods_for_warmup_figures(state)
    pod_names = {pod.name for pod in pods}
    figure_rows = [row for row in rows if row.name in pod_names]
    fields: dict[str, Any] = {
        "captured_percent": warmup_figures.lowest_captured_warmup_percent(figure_rows),
        "warmup": warmup_figures.warmup_progress(state, rows),
        "recompiles": warmup_figures.recompile_figures(
            [row for row in rows if row.ready], [pod.report for pod in state.serving_pods if pod.report]
        ),
    }
    # A new leader of the operator has no reports yet. Keep the written figures, because zeros would look like a restart
    # of all pods.
    if pods and not any(pod.report for pod in pods):
        fields["recompiles"] = state.previous_status.recompiles
    return fields


def throttle_status(
    previous: GaudiInferenceStatus,
    status: GaudiInferenceStatus,
    observed: Observed,
    deadlines: Deadlines,
    *,
    all_reported: bool = True,
) -> tuple[GaudiInferenceStatus, datetime | None]:
    """Return (`status`, None) to write the status, or (`previous`, start of the delay) to delay the write.

    `all_reported` is True if all running pods have reported since this process started. Three changes are not delayed:
    a change of Ready, the first status of a changed spec, and a change of fields that later reconciles read. The
    creation time of a revision is written with the next change.
    """
    if _fields_read_later(status) != _fields_read_later(previous) or _is_ready(status) != _is_ready(previous):
        return status, None
    if _drop_creation_times(status) == _drop_creation_times(previous):
        return previous, None
    awaits_reports = observed.status_written_at is None and not all_reported
    delay_seconds = FIRST_REPORTS_SECONDS if awaits_reports else status_write_delay(len(observed.pods))
    held_since = observed.status_held_since or deadlines.now
    return (status, None) if deadlines.has_passed(held_since, delay_seconds) else (previous, held_since)


def is_status_complete(state: State) -> bool:
    """Return True if every running replica has reported since this process started, so the status is complete."""
    return all(pod.report_received_at for pod in state.active_pods if pod.container and pod.container.running)


def _is_ready(status: GaudiInferenceStatus) -> bool:
    return any(condition.type == "Ready" and condition.status == TRUE for condition in status.conditions)


def _fields_read_later(status: GaudiInferenceStatus) -> tuple[object, ...]:
    """Return the parts of the status that later reconciles read."""
    return status.observed_generation, status.revision, _drop_creation_times(status).revisions


def _drop_creation_times(status: GaudiInferenceStatus) -> GaudiInferenceStatus:
    """Return the status without the creation times of revisions, which need no write of their own."""
    # The API server sets the creation time of a ControllerRevision. If this time counted as a change, each rollout
    # would need one more status write.
    revisions = tuple(row.model_copy(update={"created": None}) for row in status.revisions)
    return status.model_copy(update={"revisions": revisions})


def build_revision_states(state: State) -> tuple[RevisionStatus, ...]:
    """Return one row of the status per stored revision, newest first, up to the maximum number of rows."""
    revisions = sorted(state.revisions, key=lambda revision: revision.number, reverse=True)
    return tuple(_revision_state(state, revision) for revision in revisions[:MAX_REVISIONS])


def _revision_state(state: State, revision: Revision) -> RevisionStatus:
    failure, failure_record = revision.failure, state.failures.get(revision.name, BackOffRecord())
    return RevisionStatus(
        name=revision.name,
        number=revision.number,
        phase=_revision_phase(state, revision),
        served=revision.name in state.served_revisions,
        created=revision.created_at,
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
        last_termination=failure_record.last_termination,
        back_off=failure_record.back_off,
    )


def _revision_phase(state: State, revision: Revision) -> RevisionPhase:
    is_current = revision.name == state.current_name
    has_pods = any(pod.revision == revision.name for pod in state.active_pods)
    if revision.failure:
        return RevisionPhase.FAILED if is_current or has_pods else RevisionPhase.ROLLED_BACK
    if is_current:
        return RevisionPhase.SERVING if revision.name == state.stable_name else RevisionPhase.ROLLING_OUT
    if any(pod.revision == revision.name for pod in state.serving_pods):
        return RevisionPhase.SERVING
    return RevisionPhase.SCALING_DOWN if has_pods else RevisionPhase.KEPT
