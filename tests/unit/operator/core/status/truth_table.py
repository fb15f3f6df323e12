"""The truth table of the conditions, as docs/reference/conditions.md states it, and situations that it is held to.

Facts are counted from the objects of the world and from how the situation was made, never from the operator's values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations_with_replacement
from typing import Any

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_runtime.contract.report import Phase, RuntimeFailure
from tests.support.builders import copied
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import served
from tests.world import pods
from tests.world.api import condition, ending, with_condition

REFUSED = {"settings": {"VLLM_NO_SUCH_SETTING": "1"}}


class Slot(StrEnum):
    """The state of the pod in the place of a replica."""

    SERVING = "serving"
    RESTARTED = "restarted"
    GATED = "gated"
    UNSCHEDULED = "unscheduled"
    PULLING = "pulling"
    WARMING = "warming"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True)
class Facts:
    """Numbers of pods: `old` of other revisions, `made` of the current one, `expected` to serve by what was before.

    An old pod whose ReplicaSet has no replicas any more is not `old_desired`: it goes without another step.
    """

    wanted: int
    serving: int
    serving_new: int
    made: int
    old: int
    old_desired: bool
    expected: int
    warming: int
    left: int
    failed: bool
    paused: bool
    refused: bool
    unavailable: int

    @property
    def ready(self) -> bool:
        """Whether all is as desired."""
        if self.refused or self.failed or self.old_desired:
            return False
        return not self.left if self.wanted == 0 else self.serving_new >= self.wanted


Holds = Callable[[Facts], bool]
BY_READY = "that of Ready"
BY_PROBLEM = "that of the refusal or problem"


def _always(_: Facts) -> bool:
    return True


TABLE: tuple[tuple[str, str, Holds, str, str], ...] = (
    ("Available", "no replica is desired", lambda f: f.wanted == 0, "False", "ScaledToZero"),
    (
        "Available",
        "serving < 1, or serving < replicas - maxUnavailable",
        lambda f: f.serving < max(1, f.wanted - f.unavailable),
        "False",
        "BelowMinimum",
    ),
    ("Available", "otherwise", _always, "True", "MinimumAvailable"),
    ("Degraded", "serving < expected", lambda f: f.serving < f.expected, "True", "ReplicasLost"),
    ("Degraded", "otherwise", _always, "False", "AsPromised"),
    (
        "Ready",
        "the spec is refused, or a problem is known",
        lambda f: f.refused or f.failed,
        "False",
        BY_PROBLEM,
    ),
    ("Ready", "no replica is desired, no pod is left", lambda f: f.wanted == 0 and not f.left, "True", "ScaledToZero"),
    ("Ready", "no replica is desired, pods are left", lambda f: f.wanted == 0, "False", "ScalingDown"),
    ("Ready", "paused, and old pods are desired", lambda f: f.paused and f.old_desired, "False", "RolloutPaused"),
    (
        "Ready",
        "all desired replicas of the current revision serve, and no old pod is desired",
        lambda f: f.serving_new >= f.wanted and not f.old_desired,
        "True",
        "Serving",
    ),
    ("Ready", "old pods run", lambda f: f.old > 0, "False", "RollingOut"),
    (
        "Ready",
        "a pod is still to be made, or none of the others warms up",
        lambda f: f.made < f.wanted or not f.warming,
        "False",
        "StartingPods",
    ),
    ("Ready", "otherwise", _always, "False", "WarmingUp"),
    ("Stalled", "refused, or a problem that only a person solves", lambda f: f.refused or f.failed, "True", BY_READY),
    ("Stalled", "otherwise", _always, "False", "NotStalled"),
    ("Reconciling", "Ready is True", lambda f: f.ready, "False", "Settled"),
    ("Reconciling", "Stalled is True", lambda f: f.refused or f.failed, "False", "Stalled"),
    (
        "Reconciling",
        "paused, old pods are desired, and all desired replicas serve",
        lambda f: f.paused and f.old_desired and f.serving >= f.wanted,
        "False",
        "RolloutPaused",
    ),
    ("Reconciling", "otherwise", _always, "True", BY_READY),
)


def expected_of(kind: str, facts: Facts) -> tuple[str, str]:
    """Status and reason by the first row whose fact applies."""
    return next((status, reason) for row, _, holds, status, reason in TABLE if row == kind and holds(facts))


def slots(wanted: int, before: int) -> Iterator[tuple[Slot, ...]]:
    """All ways to fill the places of replicas; only one that has served can have been restarted."""
    for found in combinations_with_replacement(Slot, wanted):
        if sum(each in (Slot.SERVING, Slot.RESTARTED) for each in found) <= before or Slot.RESTARTED not in found:
            yield found


def started(wanted: int, before: int) -> Cluster:
    """A model of which `before` replicas serve, and `wanted` are desired and made."""
    if before:
        cluster = served(replicas=before)
        cluster.change(replicas=wanted)
    else:
        cluster = Cluster(resource(replicas=wanted))
    cluster.operate()
    cluster.controllers()
    return cluster


def filled(start: Cluster, found: tuple[Slot, ...], *, refused: bool) -> Cluster:
    """A copy with its places filled so, the status of which the operator has written."""
    cluster = copied(start)
    old = [each for each in cluster.kind("Pod") if condition(each, "Ready").get("status") == "True"]
    stay = sum(each in (Slot.SERVING, Slot.RESTARTED) for each in found)
    for pod in old[stay:]:
        cluster.delete("Pod", pod["metadata"]["name"])
    cluster.controllers()
    names = sorted((each["metadata"]["name"] for each in cluster.kind("Pod")), key=_after(old))
    order = sorted(found, key=lambda slot: slot not in (Slot.SERVING, Slot.RESTARTED))
    for name, slot in zip(names, order, strict=True):
        place(cluster, name, slot)
    return seen(cluster, refused=refused)


def _after(first: list[dict[str, Any]]) -> Callable[[str], tuple[bool, str]]:
    names = {each["metadata"]["name"] for each in first}
    return lambda name: (name not in names, name)


def seen(cluster: Cluster, *, refused: bool, paused: bool = False) -> Cluster:
    """The operator, the kubelets and the operator again take their turns."""
    if paused:
        cluster.change(rollout={"paused": True})
    if refused:
        cluster.change(engine=REFUSED)
    for _ in range(3):
        cluster.operate()
        for pod in cluster.kind("Pod"):
            for container in (pod.get("status") or {}).get("containerStatuses", ()):
                if "running" in container["state"]:
                    now = stamp(cluster.now)
                    cluster.api.status(pod, **pods.running(pod, "10.0.0.1", container, now))
    return cluster


def place(cluster: Cluster, name: str, slot: Slot) -> None:
    """Bring a pod, which runs, into the state of a slot."""
    pod, now = cluster.objects["Pod", name], stamp(cluster.now)
    match slot:
        case Slot.SERVING:
            cluster.report(name, Phase.SERVING)
        case Slot.RESTARTED:
            cluster.restart(name)
        case Slot.WARMING:
            cluster.report(name, Phase.COMPILING)
        case Slot.FAILED:
            cluster.report(
                name, Phase.FAILED, failure=RuntimeFailure(reason="ModelNotFound", message="There is no model.")
            )
        case Slot.MISSING:
            cluster.delete("Pod", name)
        case Slot.GATED:
            shown = with_condition([], "PodScheduled", False, now, "SchedulingGated", "Scheduling is blocked.")
            pod["status"] = {"phase": "Pending", "conditions": shown}
        case Slot.UNSCHEDULED:
            pod["status"] = pods.unschedulable({}, now, "0/1 nodes are available")
        case Slot.PULLING:
            waits = pods.container_status("", False, 0, {"waiting": {"reason": "ContainerCreating"}})
            shown = with_condition([], "PodScheduled", True, now)
            pod["status"] = {"phase": "Pending", "conditions": shown, "containerStatuses": [waits]}


def facts_of(cluster: Cluster, expected: Callable[[int], int], **given: Any) -> Facts:
    """The facts of a world; `expected` says from how many serve how many should."""
    spec, current = cluster.resource["spec"], cluster.resource["status"]["revision"].get("current")
    live = [pod for pod in cluster.kind("Pod") if not ending(pod)]
    mine = [pod for pod in live if pod["metadata"]["labels"][REVISION_LABEL] == current]
    serving = [pod for pod in live if _serves(pod)]
    olds = [each for each in cluster.kind("ReplicaSet") if each["metadata"]["labels"][REVISION_LABEL] != current]
    return Facts(
        wanted=spec["replicas"],
        serving=len(serving),
        serving_new=sum(map(_serves, mine)),
        made=len(mine),
        old=len(live) - len(mine),
        old_desired=any(each["spec"]["replicas"] for each in olds),
        expected=expected(len(serving)),
        warming=sum(_runs(pod) and not _serves(pod) for pod in mine),
        left=len(cluster.kind("Pod")),
        unavailable=spec.get("rollout", {}).get("maxUnavailable", 0),
        **given,
    )


def _serves(pod: Mapping[str, Any]) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def _runs(pod: Mapping[str, Any]) -> bool:
    return any("running" in each["state"] for each in (pod.get("status") or {}).get("containerStatuses", ()))
