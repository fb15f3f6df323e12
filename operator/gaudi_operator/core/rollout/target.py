"""Which revision runs: the one that is asked for or, when it has failed, the last good one (docs/how-to/revisions.md).

A failure is judged while the revision is being rolled out, and only when there is a good one to return to. It stands
on the ControllerRevision from then on: the same revision is not tried again until a person says so.

A new revision is on trial until its first pod, the canary, has held its gate for as long as the spec asks; the next
one does not start before.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from gaudi_operator.api.v1alpha1.scaling import OnFailure
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.problems.criteria import Room
from gaudi_operator.core.problems.pod_problems import blames_the_revision, pod_problems
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import Choice, State
from gaudi_runtime.errors import Problem


def choose(state: State, desired: Revision, room: Room) -> Choice:
    """What runs now, where `desired` is what the spec asks for."""
    spec, stable = state.inference.spec, state.before.revision.stable
    good = last_good(desired.name, state.stored, stable, state.pods, state.forbidden)
    # Without a good revision to return to, giving up would only leave nothing at all running.
    if desired.failure is None and good is not None and desired.name != stable and not spec.rollout.paused:
        desired = replace(desired, failure=_failure(desired.name, state, room))
    if desired.failure is None:
        return Choice(desired, desired)
    on_hold = spec.rollout.on_failure is OnFailure.PAUSE
    current = desired if on_hold else good or desired
    return Choice(desired, current, on_hold, _problem(desired.name, desired.failure, current, on_hold=on_hold))


def _problem(failed: str, failure: Problem, current: Revision, *, on_hold: bool) -> Problem | None:
    """What a failed revision asks of a person; nothing where it runs on as there is no other."""
    found = f"Revision {failed} failed ({failure.reason}): {failure.message}"
    if current.name != failed:
        return Problem("RolledBack", f"{found} Revision {current.name} runs instead{_GONE} {_NEXT}")
    return Problem("RevisionFailed", f"{found} {_ON_HOLD} {_NEXT}") if on_hold else None


_GONE = ", and pods of the failed one are not kept: spec.rollout.onFailure Pause keeps them for a look."
_ON_HOLD = (
    "The rollout is on hold, as spec.rollout.onFailure is Pause, and its pods stay for a look: `kubectl logs POD`."
)
_NEXT = (
    "Change the spec; or, if the cause lay elsewhere and is fixed, set the annotation "
    "inference.gaudi.dev/restarted-at to a new value for another try."
)


def last_good(
    failed: str,
    stored: Iterable[Revision],
    stable: str | None,
    pods: Iterable[PodView],
    forbidden: Collection[str] = (),
) -> Revision | None:
    """What a failed revision is rolled back to: the stable one, else the newest with pods that have served.

    A `forbidden` one only while it has such pods: it gets no others.
    """
    served = {pod.revision for pod in pods if pod.active and pod.served}
    others = [
        revision
        for revision in stored
        if revision.name != failed
        and revision.failure is None
        and (revision.name not in forbidden or revision.name in served)
    ]
    proven = [revision for revision in others if revision.name == stable or revision.name in served]
    return next((revision for revision in proven if revision.name == stable), next(iter(proven), None))


def _failure(revision: str, state: State, room: Room) -> Problem | None:
    problems = pod_problems(state.active_of(revision), state.criteria(revision, room))
    found = next((problem for problem in problems if blames_the_revision(problem)), None)
    # It is read when these pods are long gone.
    return None if found is None else Problem(found.reason, found.kept)


def on_trial(
    revision: str, stable: str | None, pods: Iterable[PodView], observe_seconds: int, deadlines: Deadlines
) -> bool:
    """Whether at most one pod of `revision` may run: pods of others serve, and none of its own has proven itself.

    The `stable` revision has proven itself before. With nothing to protect, all pods start at once.
    """
    active = [pod for pod in pods if pod.active]
    # With nobody to protect, one pod after the other would only make the first start slower.
    if revision == stable or not any(pod.served for pod in active if pod.revision != revision):
        return False
    mine = [pod for pod in active if pod.revision == revision]
    return not any(pod.ready and held_its_gate(pod, observe_seconds, deadlines) for pod in mine)


def held_its_gate(pod: PodView, seconds: int, deadlines: Deadlines) -> bool:
    """Whether the pod has held its gate for so long."""
    return seconds == 0 or (pod.open_since is not None and deadlines.reached(pod.open_since, seconds))
