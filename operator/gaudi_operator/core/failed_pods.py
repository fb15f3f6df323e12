"""Pods that end as a whole before they ever serve: refused by their node, or evicted in the middle of a warm-up.

They are no replicas any more, and the ReplicaSet makes others in their stead; but they stay in the cluster, and with
them what their node said (docs/conditions.md, While pods start).
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from gaudi_operator.core.back_off import Record
from gaudi_operator.core.pods import PodView
from gaudi_runtime.problem import Problem

FEWEST = 2
"""Ended pods before we speak of them: one may be chance."""


def failed_in_a_row(pods: Iterable[PodView], revision: str) -> list[PodView]:
    """Failed pods of a revision that never served, oldest first, since the last of its pods became ready."""
    mine = [pod for pod in pods if pod.revision == revision]
    ready = max((since for pod in mine if pod.ready and (since := pod.conditions["Ready"].since)), default=None)
    failed = ((pod.ended_at, pod) for pod in mine if pod.ended_at and not pod.served)
    return [pod for at, pod in sorted(failed, key=_when) if ready is None or at > ready]


def failed_pods_problem(pods: Iterable[PodView], revision: str) -> Problem | None:
    """What is said of them: how many, and the last one's own reason."""
    failed = failed_in_a_row(pods, revision)
    if len(failed) < FEWEST:
        return None
    last = failed[-1]
    return Problem(
        "PodsFail",
        f"{len(failed)} pods of revision {revision} ended before they served, the last one {last.name}: {last.ended} "
        f"Check its node and spec.pod.resources; `kubectl describe pod {last.name}` tells more.",
    )


def with_next_try(
    problem: Problem | None, known: Record | None, active: int, wished: int, now: datetime
) -> Problem | None:
    """The problem of a revision, and when the next pod is made while it backs off; that alone where no pod is left.

    `active` pods of the `wished` ones are there.
    """
    pause = known.pause(now) if known else None
    if pause is None or known is None or active >= wished:
        return problem
    tries = f"{pause.failures} tries in a row ended before a pod served"
    if problem:
        return replace(problem, message=f"{problem.message} {tries}: no new pod is made before {pause.until}.")
    error = known.last_error
    if active or error is None:
        return None
    said = f"{tries}, the last one with pod {error.pod}: {error.message.rstrip('.')}."
    return Problem("PodsFail", f"{said} The next pod is made at {pause.until}.")


def _when(found: tuple[datetime, PodView]) -> tuple[datetime, str]:
    at, pod = found
    return at, pod.name
