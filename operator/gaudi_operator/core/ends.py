"""When pods of a revision, and containers in them, have ended by themselves, as far as they show it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gaudi_operator.core.pods import Container, PodView


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

    A pod that is being deleted ends because somebody wished it. One that has served proves that its revision works.
    While others serve, a container that its kubelet starts again is no reason to make no further pod.
    """
    serves = any(pod.ready for pod in pods)
    found = (end for pod in pods if not pod.terminating for end in _ends(pod, last_errors, serves))
    return sorted(found, key=lambda end: (end.at, end.pod))


def _ends(pod: PodView, last_errors: Mapping[str, str], serves: bool) -> Iterator[End]:
    if pod.ended and pod.ended_at:
        yield End(
            pod.name, pod.created or pod.ended_at, pod.ended_at, last_errors.get(pod.name, pod.ended), not pod.served
        )
        return
    counts = not pod.served and not serves
    for each in (pod, *(worker for worker in pod.workers if not worker.terminating)):
        yield from _container_ends(each.name, each.container, last_errors, counts)


def _container_ends(
    pod: str, container: Container | None, last_errors: Mapping[str, str], counts: bool
) -> Iterable[End]:
    if container and container.last_exit and container.last_ended:
        began = container.last_began or container.last_ended
        yield End(pod, began, container.last_ended, last_errors.get(pod, container.last_exit), counts)
