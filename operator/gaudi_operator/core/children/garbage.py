"""Garbage among the children: unused workloads, old revisions, and ConfigMaps that no pod reads."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gaudi_operator.core.actions import Delete
from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.view import ENDED
from gaudi_operator.core.rollout.live_workloads import revision_of
from gaudi_operator.core.rollout.replicas import full_replicas
from gaudi_operator.core.rollout.revision import Revision


@dataclass(frozen=True)
class Garbage:
    """The deletions of unused workloads and ControllerRevisions, and the names of the affected revisions.

    `in_use` are the revisions that must stay. `forgotten` are the revisions that are deleted.
    """

    deletes: list[Delete]
    in_use: set[str]
    forgotten: set[str]


def find_garbage(
    observed: Observed, current: str, stored: Iterable[Revision], history_limit: int, stable: str | None = None
) -> Garbage:
    """Find workloads and revisions that are no longer needed.

    A revision is in use if it is the `current` revision, or has active pods or desired replicas. Ended pods do not
    count. They are deleted with their workload, and the status keeps the last error (rollout/backoff.py). `stored` is
    sorted newest first. `history_limit` is the number of unused revisions to keep in addition to the `stable` revision.
    """
    in_use = {current, *(_revision_name(each) for each in (*observed.pods, *observed.workers) if not _has_ended(each))}
    in_use |= {revision_of(each) for each in observed.workloads if full_replicas(each)}
    # Keep the stable revision regardless of its age, because a failed rollout returns to it.
    history = [revision.name for revision in stored if revision.name not in {*in_use, stable}]
    forgotten = set(history[history_limit:])
    done = (each for each in observed.workloads if revision_of(each) not in in_use)
    old = (each for each in observed.revisions if _revision_name(each) in forgotten)
    deletes = [
        *_deletes(done, "its revision was replaced and has no pods"),
        *_deletes(old, "the history of revisions is full"),
    ]
    return Garbage(deletes, in_use, forgotten)


def unread_config_maps(observed: Observed, needed: Collection[str | None]) -> list[Delete]:
    """Return the deletions of all ConfigMaps whose names are not in `needed`."""
    unread = (each for each in observed.config_maps if each["metadata"]["name"] not in needed)
    return _deletes(unread, "no pod uses it")


def delete_child(live: Manifest, reason: str) -> Delete:
    """Return the deletion of one observed child."""
    metadata = live["metadata"]
    return Delete(live["apiVersion"], live["kind"], metadata["name"], metadata["uid"], reason)


def _has_ended(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


def _deletes(objects: Iterable[Manifest], reason: str) -> list[Delete]:
    return [delete_child(each, reason) for each in objects if "deletionTimestamp" not in each["metadata"]]


def _revision_name(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))
