"""When pods of a revision, and containers in them, have ended by themselves, as far as they show it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.core.pods import PodView


@dataclass(frozen=True)
class End:
    """What began and ended in `pod`, and how. Only with `counts` it speaks against new pods of the revision."""

    pod: str
    began: datetime
    at: datetime
    said: str
    counts: bool


def ends(pods: Sequence[PodView], last_errors: Mapping[str, str]) -> list[End]:
    """Of the pods of one revision, oldest first; `last_errors` are by pod.

    A pod that is being deleted ends because somebody wished it, unless its node says why. One that has served proves
    that its revision works. While others serve, a container that its kubelet starts again is no reason to make no
    further pod.
    """
    serves = any(pod.ready for pod in pods)
    found = (end for pod in pods for each in (pod, *pod.workers) if (end := _end(each, pod, last_errors, serves)))
    return sorted(found, key=lambda end: (end.at, end.pod))


def _end(pod: PodView, replica: PodView, last_errors: Mapping[str, str], serves: bool) -> End | None:
    """Of a pod of `replica`, which is a group or the pod itself."""
    container, ended = pod.container, pod.ended_at
    if pod.ended and ended and (pod.ended_by_node or not pod.terminating):
        said = last_errors.get(pod.name, pod.ended)
        return End(pod.name, pod.created or ended, ended, said, not replica.served)
    if pod.ended or pod.terminating or container is None or not container.last_exit or not container.last_ended:
        return None
    said = last_errors.get(pod.name, container.last_exit)
    began = container.last_began or container.last_ended
    return End(pod.name, began, container.last_ended, said, not replica.served and not serves)
