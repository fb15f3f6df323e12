"""Laws of a finished history: after faults stop, the rollout ends, no object is left over, and the operator is idle."""

from collections.abc import Iterator

from tests.laws.history import History, Moment
from tests.laws.promise import promise
from tests.laws.showing import NO_ROOM


def every_rollout_ends(history: History) -> Iterator[str]:
    """The rollout is complete, paused, or given up with a reason.

    The history must end long after the last fault. While a rollout is paused, its canary may wait for quota.
    """
    last = history.last
    ready, stalled = last.condition("Ready"), last.condition("Stalled")
    paused = last.spec.get("rollout", {}).get("paused")
    if "True" in (ready.get("status"), stalled.get("status")) or ready.get("reason") == "RolloutPaused":
        return
    if paused and ready.get("reason") == "SchedulingGated":
        return
    yield f"the rollout has not ended: {ready.get('reason')}, {ready.get('message')}"


def working_revision_serves(history: History) -> Iterator[str]:
    """If all pods have room, the current revision serves with all pods, unless it is paused or needs a person."""
    last = history.last
    current, stalled = last.status.get("revision", {}).get("current"), last.condition("Stalled")
    held = stalled.get("status") == "True" and stalled["reason"] != "RolledBack"
    if current not in history.works or held or last.spec.get("rollout", {}).get("paused"):
        return
    desired, serving = last.spec.get("replicas", 1), len(last.endpoints)
    if serving != desired:
        yield f"{serving} of {desired} pods of {current} serve, although nothing blocks the others"


def failed_revision_is_given_up(history: History) -> Iterator[str]:
    """A revision that cannot work does not run while another revision works, unless a user requests it."""
    last = history.last
    revision, rollout = last.status.get("revision", {}), last.spec.get("rollout", {})
    current, stable = revision.get("current"), revision.get("stable")
    if last.is_refused or rollout.get("paused") or _finds_no_room(last, current):
        return
    if current not in history.fails or stable not in history.works:
        return
    if last.replica_sets.get(current) and (current not in last.failed or rollout.get("onFailure") != "Pause"):
        yield f"{current} fails and still runs, although {stable} works"


def _finds_no_room(last: Moment, revision: str | None) -> bool:
    """Return True if the status reports no room and no pod of the revision runs.

    The revision's failure is then unknown.
    """
    running = [pod for pod in last.pods.values() if pod.revision == revision and pod.uid in last.runtimes]
    return not running and last.condition("Ready").get("reason") in NO_ROOM


def upgrade_is_blocked_only_by_its_minimum(history: History) -> Iterator[str]:
    """If pods may be replaced in place, the next pod finds room in the place of an old pod."""
    last = history.last
    blocked = last.condition("Ready").get("reason") == "UpgradeBlocked"
    promised = promise(last.spec).without_room
    if blocked and promised is not None:
        yield f"the upgrade is blocked, although only {promised} pods are guaranteed without room"


def operator_is_idle_at_the_end(history: History) -> Iterator[str]:
    """The operator writes nothing at the end, unless another actor changed something."""
    still, late = history.end - history.rest, history.end - history.rest / 2
    writes = [at for at in history.writes if at > late]
    if writes and not any(at > still for at in history.others):
        yield f"{len(writes)} writes after {late:.0f} s, although nothing has changed since {still:.0f} s"


def only_the_holder_of_the_lease_writes(history: History) -> Iterator[str]:
    """A replica of the operator that does not hold the Lease never writes."""
    for at, who in history.trespasses:
        yield f"{at:.0f} s: {who} writes without holding the Lease"


def every_child_is_owned(history: History) -> Iterator[str]:
    """Every child has the resource as its owner at all times."""
    for _, before, now in history.steps():
        if now.children == before.children:
            continue
        uid = now.resource["metadata"]["uid"]
        for child in now.children:
            if child.owner != uid:
                yield f"{now.at:.0f} s: {child.kind} {child.name} has the owner {child.owner}"


def nothing_is_left_over(history: History) -> Iterator[str]:
    """At the end, every ReplicaSet has desired or running pods or is current, and the revision history is bounded."""
    last, spec = history.last, history.last.spec
    current = last.status.get("revision", {}).get("current")
    if current is None:
        return  # the spec is refused and no revision is kept, so the needed objects are unknown
    needed = {current} | {pod.revision for pod in last.pods.values() if not pod.failed}
    for revision, desired in last.replica_sets.items():
        if not desired and revision not in needed:
            yield f"the ReplicaSet of {revision} is left over"
    kinds = [child.kind for child in last.children]
    most = spec.get("rollout", {}).get("revisionHistoryLimit", 5) + len(last.replica_sets) + 1
    if kinds.count("ControllerRevision") > most:
        yield f"{kinds.count('ControllerRevision')} ControllerRevisions are kept, {most} at most are needed"
    if kinds.count("ConfigMap") > max(1, len(last.replica_sets)):
        yield f"{kinds.count('ConfigMap')} ConfigMaps are kept for {len(last.replica_sets)} ReplicaSets"
