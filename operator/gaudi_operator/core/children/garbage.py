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

    `used_names` belong to revisions that must stay, `expired_names` to revisions that are deleted.
    """

    deletes: list[Delete]
    used_names: set[str]
    expired_names: set[str]


def find_garbage(
    observed: Observed, names: Iterable[str], stored: Iterable[Revision], history_limit: int, stable: str | None = None
) -> Garbage:
    """Find workloads and revisions that are no longer needed.

    A revision is in use if its name is in `names`, or if it has active pods or desired replicas. Ended pods do not
    count. They are deleted with their workload, and the status keeps the last error (rollout/backoff.py). `stored` is
    sorted newest first. `history_limit` is the number of unused revisions to keep in addition to the `stable` revision.
    """
    used_names = {*names, *(_revision_name(pod) for pod in (*observed.pods, *observed.workers) if not _has_ended(pod))}
    used_names |= {revision_of(workload) for workload in observed.workloads if full_replicas(workload)}
    # Keep the stable revision regardless of its age, because a failed rollout returns to it.
    unused_names = [revision.name for revision in stored if revision.name not in {*used_names, stable}]
    expired_names = set(unused_names[history_limit:])
    unused_workloads = (workload for workload in observed.workloads if revision_of(workload) not in used_names)
    expired_revisions = (revision for revision in observed.revisions if _revision_name(revision) in expired_names)
    deletes = [
        *_deletes(unused_workloads, "its revision was replaced and has no pods"),
        *_deletes(expired_revisions, "the history of revisions is full"),
    ]
    return Garbage(deletes, used_names, expired_names)


def unread_config_maps(observed: Observed, needed_names: Collection[str | None]) -> list[Delete]:
    """Return the deletions of all ConfigMaps whose names are not in `needed_names`."""
    unread = (config_map for config_map in observed.config_maps if config_map["metadata"]["name"] not in needed_names)
    return _deletes(unread, "no pod uses it")


def delete_child(child: Manifest, reason: str) -> Delete:
    """Return the deletion of one observed child."""
    metadata = child["metadata"]
    return Delete(child["apiVersion"], child["kind"], metadata["name"], metadata["uid"], reason)


def _has_ended(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


def _deletes(objects: Iterable[Manifest], reason: str) -> list[Delete]:
    return [delete_child(child, reason) for child in objects if "deletionTimestamp" not in child["metadata"]]


def _revision_name(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))
