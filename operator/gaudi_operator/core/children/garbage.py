"""Children that nothing needs any more: old workloads, forgotten revisions and the ConfigMaps of neither."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gaudi_operator.core.actions import Delete
from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.pods.view import ENDED
from gaudi_operator.core.rollout.replicas import full_replicas, revision_of
from gaudi_operator.core.rollout.revision import Revision


@dataclass(frozen=True)
class Garbage:
    """Deletes of workloads and ControllerRevisions that are over, and the names of the revisions that are `in_use` and
    of those that are `forgotten`.
    """

    deletes: list[Delete]
    in_use: set[str]
    forgotten: set[str]


def garbage(
    observed: Observed, current: str, stored: Iterable[Revision], history_limit: int, stable: str | None = None
) -> Garbage:
    """What is over, and what is not.

    In use is the `current` revision and whatever has pods or is to. A pod that has ended runs nothing any more:
    it goes with its workload, and its last error stays in the status (rollout/backoff.py). `stored` is newest first;
    `history_limit` is how many revisions that are not in use are kept, beside the `stable` one.
    """
    in_use = {current, *(_revision(each) for each in (*observed.pods, *observed.workers) if not _has_ended(each))}
    in_use |= {revision_of(each) for each in observed.workloads if full_replicas(each)}
    # The stable one is what a failed rollout returns to, however old it is.
    history = [revision.name for revision in stored if revision.name not in {*in_use, stable}]
    forgotten = set(history[history_limit:])
    done = (each for each in observed.workloads if revision_of(each) not in in_use)
    old = (each for each in observed.revisions if _revision(each) in forgotten)
    deletes = [
        *_deletes(done, "its revision is replaced and has no pods"),
        *_deletes(old, "the history of revisions is full"),
    ]
    return Garbage(deletes, in_use, forgotten)


def unread_config_maps(observed: Observed, needed: Collection[str | None]) -> list[Delete]:
    """Deletes of ConfigMaps whose names are not `needed`."""
    unread = (each for each in observed.config_maps if each["metadata"]["name"] not in needed)
    return _deletes(unread, "no pod reads it")


def delete(live: Manifest, reason: str) -> Delete:
    """Delete one observed child."""
    metadata = live["metadata"]
    return Delete(live["apiVersion"], live["kind"], metadata["name"], metadata["uid"], reason)


def _has_ended(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


def _deletes(objects: Iterable[Manifest], reason: str) -> list[Delete]:
    return [delete(each, reason) for each in objects if "deletionTimestamp" not in each["metadata"]]


def _revision(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))
