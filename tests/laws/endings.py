"""Laws of the end: once faults stop, a rollout ends, nothing is left over, and the operator rests."""

from collections.abc import Iterator

from tests.laws.history import History, Moment
from tests.laws.promise import promise
from tests.laws.showing import NO_ROOM


def every_rollout_ends(history: History) -> Iterator[str]:
    """Done, or held or given up with a reason; read it of a history that ends long after the last fault."""
    last = history.last
    ready, stalled = last.condition("Ready"), last.condition("Stalled")
    if ready.get("status") == "True" or stalled.get("status") == "True" or ready.get("reason") == "RolloutPaused":
        return
    yield f"the rollout has not ended: {ready.get('reason')}, {ready.get('message')}"


def what_works_serves(history: History) -> Iterator[str]:
    """With room for all, the revision that is run serves wholly, unless a person holds it or is asked."""
    last = history.last
    current, stalled = last.status.get("revision", {}).get("current"), last.condition("Stalled")
    held = stalled.get("status") == "True" and stalled["reason"] != "RolledBack"
    if current not in history.works or held or last.spec.get("rollout", {}).get("paused"):
        return
    desired, serving = last.spec.get("replicas", 1), len(last.endpoints)
    if serving != desired:
        yield f"{serving} of {desired} pods of {current} serve, and nothing keeps the others from it"


def what_fails_is_given_up(history: History) -> Iterator[str]:
    """A revision that cannot work is not run while there is one that works, unless a person asks for that."""
    last = history.last
    revision, rollout = last.status.get("revision", {}), last.spec.get("rollout", {})
    current, stable = revision.get("current"), revision.get("stable")
    plan = last.condition("PlanAccepted")
    refused = plan.get("status") != "True" and plan.get("reason") not in ("AcceptedInDoubt", "CapturedBelowThreshold")
    if refused or rollout.get("paused") or _finds_no_room(last, current):
        return
    if current not in history.fails or stable not in history.works:
        return
    if last.replica_sets.get(current) and (current not in last.failed or rollout.get("onFailure") != "Pause"):
        yield f"{current} fails and is still run, although {stable} works"


def _finds_no_room(last: Moment, revision: str | None) -> bool:
    """Whether the status says that its pods have no place, and none of them runs: then nobody knows that it fails."""
    running = [pod for pod in last.pods.values() if pod.revision == revision and pod.uid in last.runtimes]
    return not running and last.condition("Ready").get("reason") in NO_ROOM


def an_upgrade_is_blocked_only_by_its_promise(history: History) -> Iterator[str]:
    """Where pods may be replaced in place, the next pod finds room in the place of an old one."""
    last = history.last
    blocked = last.condition("Ready").get("reason") == "UpgradeBlocked"
    promised = promise(last.spec).without_room
    if blocked and promised is not None:
        yield f"the upgrade is blocked, although only {promised} pods are promised without room"


def the_operator_rests(history: History) -> Iterator[str]:
    """No write at the end, unless somebody else has changed something."""
    still, late = history.end - history.rest, history.end - history.rest / 2
    writes = [at for at in history.writes if at > late]
    if writes and not any(at > still for at in history.others):
        yield f"{len(writes)} writes after {late:.0f} s, although nothing has changed since {still:.0f} s"


def only_the_holder_of_the_lease_writes(history: History) -> Iterator[str]:
    """At no time a second replica writes."""
    for at, who in history.trespasses:
        yield f"{at:.0f} s: {who} writes, and does not hold the Lease"


def every_child_is_owned(history: History) -> Iterator[str]:
    """No child without the resource as its owner, at any time."""
    for _, before, now in history.steps():
        if now.children == before.children:
            continue
        uid = now.resource["metadata"]["uid"]
        for child in now.children:
            if child.owner != uid:
                yield f"{now.at:.0f} s: {child.kind} {child.name} has the owner {child.owner}"


def nothing_is_left_over(history: History) -> Iterator[str]:
    """In the end: ReplicaSets only where pods are desired, run or may run, and a bounded history."""
    last, spec = history.last, history.last.spec
    current = last.status.get("revision", {}).get("current")
    if current is None:
        return  # a refused spec, and nothing that is kept: nobody knows what is needed
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
