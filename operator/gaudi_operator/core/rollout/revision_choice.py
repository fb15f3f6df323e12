"""The revision that the spec requests, and the revision to run (docs/how-to/revisions.md).

The spec requests a stored or new revision. The revision to run is this one or, if it failed, the last good revision.

A revision can fail only during its rollout, and only if there is a good revision for a rollback. The ControllerRevision
stores the failure, so that the revision is not retried until a user requests it.

A new revision is on trial until its first pod, the canary, has kept its gate open for the time that the spec sets. The
next pod starts after the trial.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from gaudi_operator.api.v1alpha1.rollout import OnFailure
from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.inference import Inference, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.pod_problems import is_pod_problem_of_revision, pod_problems
from gaudi_operator.core.rendering.pod_template import pod_template, worker_template
from gaudi_operator.core.rendering.runtime_config import runtime_config, runtime_config_map_name
from gaudi_operator.core.rollout.revision import (
    Revision,
    RevisionClassDefaults,
    RevisionPodGroup,
    newest_revision_number,
    revision_inputs,
    revision_name,
    serialize_revision_inputs,
)
from gaudi_operator.core.rollout.state import RevisionState, State
from gaudi_operator.core.text_formats import format_canonical_json
from gaudi_runtime.contract.config import ExecutionMode, plan_hash
from gaudi_runtime.errors import Problem


def choose_desired_revision(
    inference: Inference,
    stored: tuple[Revision, ...],
    defaults: InstallationDefaults,
    filled: Inference | None = None,
    class_defaults: RevisionClassDefaults | None = None,
) -> Revision:
    """Return the desired revision, which is a stored or new revision.

    A stored template is used unchanged even if this operator would render it differently, because only changed inputs
    may restart pods. `filled` is the resource with the defaults of its class (`class_defaults`), which `defaults`
    contains too. It is used only for rendering. The inputs come from the spec without these defaults.
    """
    # Compare the inputs, because names may differ between releases. A newer release hashes fields that an older release
    # does not have.
    for revision in stored:
        if revision.matches_spec(inference):
            return revision
    inputs = revision_inputs(inference)
    full_inference = filled or inference
    config = runtime_config(full_inference)
    text = format_canonical_json(config.model_dump(mode="json", by_alias=True, exclude_none=True))
    name = revision_name(inputs)
    plan_digest = plan_hash(config.bucketing, config.limits)
    template = pod_template(
        full_inference, name, plan_digest, runtime_config_map_name(inference.identity, text), defaults
    )
    # Render each revision only once. Later reconciles use the stored template.
    nodes = inference.spec.parallelism.nodes
    group = RevisionPodGroup(nodes, worker_template(template)) if nodes > 1 else None
    number = newest_revision_number(stored) + 1
    return Revision(
        name, number, serialize_revision_inputs(inputs), template, text, group=group, class_defaults=class_defaults
    )


def use_mode_of_chosen_revision(inference: Inference, stored: tuple[Revision, ...]) -> Inference:
    """Return the resource with the execution mode of the revision that matches its spec, if this revision is stored."""
    return _replace_mode(
        inference, next((revision.execution_mode for revision in stored if revision.matches_spec(inference)), None)
    )


@cache_on_inference
def _replace_mode(inference: Inference, mode: ExecutionMode | None) -> Inference:
    return replace(inference, stored_mode=mode)


def choose_revision(state: State, desired: Revision, room: RoomCriterion) -> RevisionState:
    """Select the revision to run now. `desired` is the revision that the spec requests."""
    spec, stable = state.inference.spec, state.previous_status.revision.stable
    fallback = choose_last_good_revision(desired.name, state.stored, state.previous_status, state.pods, state.forbidden)
    # Without a good revision, a rollback would have no target and leave no pods.
    if desired.failure is None and fallback is not None and desired.name != stable and not spec.rollout.paused:
        desired = replace(desired, failure=_find_failure(desired.name, state, room))
    if desired.failure is None:
        return RevisionState(desired, desired)
    on_hold = spec.rollout.on_failure is OnFailure.PAUSE
    current = desired if on_hold else fallback or desired
    return RevisionState(
        desired, current, on_hold, _failed_revision_problem(desired.name, desired.failure, current, on_hold=on_hold)
    )


def _failed_revision_problem(failed_name: str, failure: Problem, current: Revision, *, on_hold: bool) -> Problem | None:
    """Return a problem that tells the user how to handle a failed revision, or None if no other revision can run."""
    message = f"Revision {failed_name} failed ({failure.reason}): {failure.message}"
    if current.name != failed_name:
        return Problem("RolledBack", f"{message} Revision {current.name} runs instead{_GONE} {_NEXT}")
    return Problem("RevisionFailed", f"{message} {_ON_HOLD} {_NEXT}") if on_hold else None


_GONE = ". Pods of the failed revision are deleted; spec.rollout.onFailure Pause keeps them for inspection."
_ON_HOLD = (
    "The rollout is paused because spec.rollout.onFailure is Pause. Its pods are kept for inspection: `kubectl logs "
    "POD`."
)
_NEXT = (
    "Change the spec. If the cause was outside the spec and is fixed, set the annotation "
    "inference.gaudi.dev/restarted-at to a new value to retry."
)


def choose_last_good_revision(
    failed_name: str | None,
    stored: Iterable[Revision],
    previous: GaudiInferenceStatus,
    pods: Iterable[PodView],
    forbidden: Collection[str] = (),
) -> Revision | None:
    """Return the revision for a rollback: the stable revision or, without one, the newest revision that serves.

    If no revision serves, the newest one that served is returned. The written status `previous` names these revisions.
    Like this function, `rollout undo` selects only revisions that served. A `forbidden` revision gets no new pods.
    Therefore it is selected only while it has pods that are or were ready.
    """
    stable = previous.revision.stable
    serving_names = {pod.revision for pod in pods if pod.is_active and pod.has_gate_condition}
    candidates = [
        revision
        for revision in stored
        if revision.name != failed_name
        and revision.failure is None
        and (revision.name not in forbidden or revision.name in serving_names)
    ]
    served_names = {stable, *serving_names, *previous.served_revisions}
    served = [revision for revision in candidates if revision.name in served_names]
    # The stored revisions are sorted, newest first, and `max` returns the first of equal candidates.
    return max(served, key=lambda revision: (revision.name == stable, revision.name in serving_names), default=None)


def _find_failure(revision: str, state: State, room: RoomCriterion) -> Problem | None:
    problems = pod_problems(state.active_pods_of(revision), state.problem_criteria(revision, room))
    failure = next((problem for problem in problems if is_pod_problem_of_revision(problem)), None)
    # Store the message that stays correct (`lasting_message`), because users read it long after these pods are gone.
    return None if failure is None else Problem(failure.reason, failure.lasting_message)


def is_chosen_revision_on_trial(
    revision: str, stable: str | None, pods: Iterable[PodView], observe_seconds: int, deadlines: Deadlines
) -> bool:
    """Return True if `revision` is on trial. During the trial, the canary is its only pod.

    The `stable` revision is never on trial. If no other revision serves, all pods start at the same time.
    """
    active = [pod for pod in pods if pod.is_active]
    # If no other revision serves, a trial protects no traffic and would only delay the first rollout.
    if revision == stable or not any(pod.has_gate_condition for pod in active if pod.revision != revision):
        return False
    revision_pods = [pod for pod in active if pod.revision == revision]
    return not any(
        pod.is_ready and has_chosen_revision_kept_gate_open(pod, observe_seconds, deadlines) for pod in revision_pods
    )


def has_chosen_revision_kept_gate_open(pod: PodView, seconds: int, deadlines: Deadlines) -> bool:
    """Return True if the gate of a canary has been open for `seconds`. The trial of its revision then ends."""
    return seconds == 0 or (pod.open_since is not None and deadlines.has_passed(pod.open_since, seconds))
