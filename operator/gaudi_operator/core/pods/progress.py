"""The steps that keep pods from traffic, counted for condition messages."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from gaudi_operator.core.pods.start_delays import is_gated
from gaudi_operator.core.pods.view import PodView


class Waiting(StrEnum):
    """The step that keeps a pod from traffic, as condition messages report it."""

    GATED = "held by scheduling gates"
    UNSCHEDULED = "without a node"
    STARTING = "pulling images or starting containers"
    WARMING = "warming up"
    FAILED = "failed to start or serve"
    READINESS = "warmed up but not ready"


def waits_for(pod: PodView) -> Waiting:
    """Return what an active pod that is not ready waits for."""
    if is_gated(pod):
        return Waiting.GATED
    if not pod.placed:
        return Waiting.UNSCHEDULED
    if pod.container is None or not pod.container.running:
        return Waiting.STARTING
    if pod.report is not None and pod.report.failure is not None:
        return Waiting.FAILED
    return Waiting.READINESS if pod.gate_open else Waiting.WARMING


def count_waiting(pods: Iterable[PodView]) -> dict[Waiting, int]:
    """Return how many pods without traffic wait at each step, in the order of the steps."""
    counts = Counter(waits_for(pod) for pod in pods if not pod.ready)
    return {kind: counts[kind] for kind in Waiting if counts[kind]}
