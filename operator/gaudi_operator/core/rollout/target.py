"""Which revision runs: the one that is asked for or, when it has failed, the last good one (docs/revisions.md).

A failure is judged while the revision is being rolled out, and only when there is a good one to return to. It stands
on the ControllerRevision from then on: the same revision is not tried again until a person says so.

A new revision is on trial until its first pod, the canary, has held its gate for as long as the spec asks; the next
one does not start before.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gaudi_operator.api.v1alpha1.scaling import OnFailure, Rollout
from gaudi_operator.core.names import GATE
from gaudi_operator.core.pods.problems import Circumstances, blames_the_revision, pod_problems
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class Choice:
    """`desired` is asked for, with its failure if it has one; `current` is to run; `held` where it failed and stays."""

    desired: Revision
    current: Revision
    held: bool = False

    @property
    def rolled_back(self) -> bool:
        """Whether another revision than the desired one runs."""
        return self.desired.name != self.current.name

    @property
    def problem(self) -> Problem | None:
        """What a failed revision asks of a person."""
        failed, failure = self.desired.name, self.desired.failure
        if failure is None:
            return None
        found = f"Revision {failed} failed ({failure.reason}): {failure.message}"
        if self.rolled_back:
            return Problem("RolledBack", f"{found} Revision {self.current.name} runs instead{_GONE} {_NEXT}")
        if not self.held:
            return None
        return Problem("RevisionFailed", f"{found} {_HELD} {_NEXT}")


_GONE = ", and pods of the failed one are not kept: spec.rollout.onFailure pause keeps them for a look."
_HELD = "The rollout is held, as spec.rollout.onFailure is pause, and its pods stay for a look: `kubectl logs POD`."
_NEXT = (
    "Change the spec; or, if the cause lay elsewhere and is mended, set the annotation "
    "inference.gaudi.dev/restarted-at to a new value for another try."
)


def choose(
    desired: Revision,
    stored: Sequence[Revision],
    stable: str | None,
    pods: Sequence[PodView],
    rollout: Rollout,
    circumstances: Circumstances,
    forbidden: Collection[str] = (),
) -> Choice:
    """What runs now. `stored` are all kept revisions, newest first; `stable` the one last rolled out wholly.

    The `forbidden` get no more pods.
    """
    good = last_good(desired.name, stored, stable, pods, forbidden)
    if desired.failure is None and good is not None and desired.name != stable and not rollout.paused:
        desired = replace(desired, failure=_failure(desired.name, pods, circumstances))
    if desired.failure is None:
        return Choice(desired, desired)
    if rollout.on_failure is OnFailure.PAUSE:
        return Choice(desired, desired, held=True)
    return Choice(desired, good or desired)


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


def _failure(revision: str, pods: Iterable[PodView], circumstances: Circumstances) -> Problem | None:
    mine = (pod for pod in pods if pod.active and pod.revision == revision)
    found = next((problem for problem in pod_problems(mine, circumstances) if blames_the_revision(problem)), None)
    # It is read when these pods are long gone.
    return None if found is None else Problem(found.reason, found.kept)


def on_trial(revision: str, stable: str | None, pods: Iterable[PodView], observe_seconds: int, now: datetime) -> bool:
    """Whether at most one pod of `revision` may run: pods of others serve, and none of its own has proven itself.

    The `stable` revision has proven itself before. With nothing to protect, all pods start at once.
    """
    active = [pod for pod in pods if pod.active]
    if revision == stable or not any(pod.served for pod in active if pod.revision != revision):
        return False
    mine = [pod for pod in active if pod.revision == revision]
    return not any(pod.ready and observed_seconds(pod, now) >= observe_seconds for pod in mine)


def observed_seconds(pod: PodView, now: datetime) -> float:
    """For how long the pod has held its gate; 0 while it is closed."""
    since = pod.conditions[GATE].since if pod.gate_open else None
    return max(0.0, (now - since).total_seconds()) if since else 0.0
