"""The truth table of the conditions, and the situations that test it.

For each condition, the first row whose fact holds decides the status and the reason.

The facts are counted from the objects in the cluster and from the setup of the situation. They never come from values
that the operator computed.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import combinations_with_replacement
from typing import Any

from gaudi_operator.core.names import GATE, REVISION_LABEL
from gaudi_runtime.contract.report import Phase, PhaseProgressReport, RuntimeFailureReport
from tests.laws.sentences import disagreements
from tests.support.builders import copied
from tests.support.conformance import kstatus, violations
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import served
from tests.world import pods
from tests.world.api import condition, ending, with_condition

REFUSED = {"settings": {"VLLM_NO_SUCH_SETTING": "1"}}


class Slot(StrEnum):
    """The state of a replica's pod."""

    SERVING = "serving"
    RESTARTED = "restarted"
    GATED = "gated"
    UNSCHEDULED = "unscheduled"
    PULLING = "pulling"
    WARMING = "warming"
    BELOW = "below the thresholds"
    FAILED = "failed"
    CRASHING = "in a crash loop"
    LOST = "on a lost node"
    MISSING = "missing"


@dataclass(frozen=True)
class Facts:
    """The facts of a situation, most of which are numbers of pods.

    `old` pods belong to other revisions, and `made` pods belong to the current revision. `expected` is the number of
    pods that should serve, given the previous state. `old_desired` is False if the ReplicaSets of all old pods have
    zero replicas, because these pods are removed without another step. `opened` pods of the current revision have an
    open gate. `below` of the serving pods are below the thresholds. `rolled_back` is True if the revision of the spec
    has failed and an older revision runs. `cause` is the reason of a refusal or problem, or empty. `lasting` is True if
    only a user can resolve the cause.
    """

    wanted: int
    serving: int
    serving_new: int
    made: int
    old: int
    old_desired: bool
    expected: int
    warming: int
    opened: int
    below: int
    left: int
    unavailable: int
    paused: bool = False
    rolled_back: bool = False
    cause: str = ""
    lasting: bool = False

    @property
    def complete(self) -> bool:
        """Whether all desired replicas of the current revision serve, and no old pod is desired."""
        return self.serving_new >= self.wanted and not self.old_desired

    @property
    def problem(self) -> str:
        """The reason of the refusal or problem. A rollback is one when no pod of the failed revision is desired."""
        return self.cause or ("RolledBack" if self.rolled_back and not self.old_desired else "")

    @property
    def stalled(self) -> bool:
        """Whether a user must act."""
        return self.lasting if self.cause else bool(self.problem)

    @property
    def ready(self) -> bool:
        """Whether everything is as desired."""
        if self.problem or self.old_desired:
            return False
        return not self.left if self.wanted == 0 else self.complete

    @property
    def kstatus(self) -> str:
        """The status that GitOps tools must compute: Failed if a user must act, Current if everything is as desired."""
        return "Failed" if self.stalled else "Current" if self.ready else "InProgress"


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
    ("Degraded", "a serving pod is below the thresholds", lambda f: f.below > 0, "True", "BelowThresholds"),
    ("Degraded", "otherwise", _always, "False", "AsExpected"),
    ("Ready", "the spec is refused, or a problem is known", lambda f: bool(f.problem), "False", BY_PROBLEM),
    ("Ready", "no replica is desired, no pod is left", lambda f: f.wanted == 0 and not f.left, "True", "ScaledToZero"),
    ("Ready", "no replica is desired, pods are left", lambda f: f.wanted == 0, "False", "ScalingDown"),
    ("Ready", "paused, and old pods are desired", lambda f: f.paused and f.old_desired, "False", "RolloutPaused"),
    (
        "Ready",
        "all desired replicas of the current revision serve, and no old pod is desired",
        lambda f: f.complete,
        "True",
        "Serving",
    ),
    (
        "Ready",
        "the revision of the spec has failed, and some of its pods are still desired",
        lambda f: f.rolled_back,
        "False",
        "RollingBack",
    ),
    ("Ready", "old pods run", lambda f: f.old > 0, "False", "RollingOut"),
    (
        "Ready",
        "no pod of the current revision warms up",
        lambda f: not f.warming,
        "False",
        "StartingPods",
    ),
    ("Ready", "otherwise", _always, "False", "WarmingUp"),
    ("WarmedUp", "no replica is desired", lambda f: f.wanted == 0, "Unknown", "ScaledToZero"),
    (
        "WarmedUp",
        "the gates of all desired replicas of the current revision are open",
        lambda f: f.opened >= f.wanted,
        "True",
        "WarmedUp",
    ),
    ("WarmedUp", "no pod of the current revision warms up", lambda f: not f.warming, "False", "NoPodWarmingUp"),
    ("WarmedUp", "otherwise", _always, "False", "WarmingUp"),
    ("Stalled", "refused, or a problem that only a person solves", lambda f: f.stalled, "True", BY_READY),
    ("Stalled", "otherwise", _always, "False", "NotStalled"),
    ("Reconciling", "Ready is True", lambda f: f.ready, "False", "Reconciled"),
    ("Reconciling", "Stalled is True", lambda f: f.stalled, "False", "Stalled"),
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
    """Return the status and the reason of the first table row whose fact holds."""
    return next((status, reason) for row, _, holds, status, reason in TABLE if row == kind and holds(facts))


_SERVED = {Slot.RESTARTED, Slot.LOST}
"""The states that only pods that have served can have."""

_STAY = {Slot.SERVING, *_SERVED}
"""The states of pods that may have served before."""

SHORT = PhaseProgressReport(planned=8, warmed=8, captured=4)
"""A warm-up that ended with half of the graphs."""


def slots(wanted: int, before: int) -> Iterator[tuple[Slot, ...]]:
    """Yield all combinations of slots.

    Only the first `before` pods have served, so only they can have been restarted or lost.
    """
    for found in combinations_with_replacement(Slot, wanted):
        if sum(each in _STAY for each in found) <= before or not _SERVED & set(found):
            yield found


def started(wanted: int, before: int, **spec: Any) -> Cluster:
    """Return a cluster in which `before` replicas serve, and `wanted` replicas are desired and created."""
    if before:
        cluster = served(replicas=before, **spec)
        cluster.change(replicas=wanted)
    else:
        cluster = Cluster(resource(replicas=wanted, **spec))
    cluster.operate()
    cluster.controllers()
    return cluster


def filled(
    start: Cluster, found: tuple[Slot, ...], *, canary: Slot | None = None, refused: bool = False, waited: int = 0
) -> Cluster:
    """Return a copy whose pods have been in the states `found` for `waited` seconds, with the operator's status.

    If `canary` is set, it is the state of the current revision's only pod, and `found` has the states of the others.
    """
    cluster = copied(start)
    newest = [each["metadata"]["name"] for each in cluster.kind("Pod") if canary and is_newest(cluster, each)]
    old = [each for each in cluster.kind("Pod") if condition(each, "Ready").get("status") == "True"]
    for pod in old[sum(each in _STAY for each in found) :]:
        cluster.delete("Pod", pod["metadata"]["name"])
    cluster.controllers()
    others = {each["metadata"]["name"] for each in cluster.kind("Pod")} - set(newest)
    names = [*sorted(others, key=_after(old)), *newest]
    order = [*sorted(found, key=lambda slot: slot not in _STAY), *([canary] if canary else [])]
    for name, slot in zip(names, order, strict=True):
        place(cluster, name, slot)
    return seen(cluster, refused=refused, waited=waited)


def is_newest(cluster: Cluster, pod: Mapping[str, Any]) -> bool:
    """Return whether a pod belongs to the current revision."""
    return bool(pod["metadata"]["labels"][REVISION_LABEL] == cluster.resource["status"]["revision"]["current"])


def _after(first: list[dict[str, Any]]) -> Callable[[str], tuple[bool, str]]:
    names = {each["metadata"]["name"] for each in first}
    return lambda name: (name not in names, name)


def seen(cluster: Cluster, *, refused: bool = False, paused: bool = False, waited: int = 0) -> Cluster:
    """Advance the clock by `waited` seconds. Then let the operator and the kubelet act three times in turn."""
    if paused:
        cluster.change(rollout={"paused": True})
    if refused:
        cluster.change(engine=REFUSED)
    cluster.now += timedelta(seconds=waited)
    for _ in range(3):
        cluster.operate()
        for pod in cluster.kind("Pod"):
            for container in (pod.get("status") or {}).get("containerStatuses", ()):
                if "running" in container["state"] and condition(pod, "Ready").get("reason") != "NodeNotReady":
                    now = stamp(cluster.now)
                    cluster.api.status(pod, **pods.running(pod, "10.0.0.1", container, now))
    return cluster


def place(cluster: Cluster, name: str, slot: Slot) -> None:
    """Change a running pod to the state `slot`."""
    pod, now = cluster.objects["Pod", name], stamp(cluster.now)
    match slot:
        case Slot.SERVING:
            cluster.report(name, Phase.SERVING)
        case Slot.RESTARTED:
            cluster.restart(name)
        case Slot.WARMING:
            cluster.report(name, Phase.COMPILING)
        case Slot.BELOW:
            cluster.report(name, Phase.SERVING, prompt=SHORT)
        case Slot.FAILED:
            cluster.report(
                name, Phase.FAILED, failure=RuntimeFailureReport(reason="ModelNotFound", message="There is no model.")
            )
        case Slot.CRASHING:
            exited = {"exitCode": 1, "reason": "Error", "finishedAt": now}
            loops = pods.container_status("c0", False, 9, {"waiting": {"reason": "CrashLoopBackOff"}}, exited)
            cluster.api.status(pod, containerStatuses=[loops])
        case Slot.LOST:
            conditions = with_condition(pod["status"]["conditions"], "Ready", False, now, "NodeNotReady")
            cluster.api.status(pod, conditions=conditions)
        case Slot.MISSING:
            cluster.delete("Pod", name)
        case Slot.GATED:
            pod["spec"] = {**pod["spec"], "schedulingGates": [{"name": pods.GATE}]}
            pod["status"] = pods.gated({}, now)
        case Slot.UNSCHEDULED:
            pod["status"] = pods.unschedulable({}, now, "0/1 nodes are available")
        case Slot.PULLING:
            waits = pods.container_status("", False, 0, {"waiting": {"reason": "ContainerCreating"}})
            shown = with_condition([], "PodScheduled", True, now)
            pod["status"] = {"phase": "Pending", "conditions": shown, "containerStatuses": [waits]}


def facts_of(cluster: Cluster, expected: Callable[[int], int], *, in_place: bool = False, **given: Any) -> Facts:
    """Return the facts of a cluster. `expected` maps the number of serving pods to the number that should serve.

    `in_place` is True if pods are replaced in place, so that one pod may be missing.
    """
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
        warming=sum(_warms_up(cluster, pod) for pod in mine),
        opened=sum(_is_open(pod) for pod in mine),
        below=sum(_is_short(cluster, pod) for pod in serving),
        left=len(cluster.kind("Pod")),
        unavailable=max(int(in_place), spec.get("rollout", {}).get("maxUnavailable") or 0),
        **given,
    )


def _serves(pod: Mapping[str, Any]) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def _is_open(pod: Mapping[str, Any]) -> bool:
    return condition(pod, GATE).get("status") == "True"


def _warms_up(cluster: Cluster, pod: Mapping[str, Any]) -> bool:
    """Return whether a container of the pod runs, and has reported neither a failure nor the end of its warm-up."""
    for each in (pod.get("status") or {}).get("containerStatuses", ()):
        if "running" in each["state"] and not _is_open(pod):
            sent = cluster.reports.get(pod["metadata"]["uid"])
            last = sent.report.phase if sent and sent.report and sent.container_id == each["containerID"] else None
            return last not in (Phase.FAILED, Phase.SERVING)
    return False


def _is_short(cluster: Cluster, pod: Mapping[str, Any]) -> bool:
    found = cluster.reports[pod["metadata"]["uid"]].report
    return found is not None and found.prompt == SHORT


def causes(found: Collection[Slot], waited: int, *, blocks: bool = True) -> list[tuple[str, bool]]:
    """Return the possible reasons of a problem that pods in these states have after `waited` seconds.

    Each reason has a flag, which is True if only a user can resolve the problem. The list is empty if there is no
    problem. `blocks` is True if pods below the thresholds get no traffic.
    """
    people = [("ModelNotFound", True)] * (Slot.FAILED in found)
    people += [("WarmupIncomplete", True)] * (Slot.BELOW in found and blocks)
    people += [("CrashLoopBackOff", True)] * (Slot.CRASHING in found)
    if people or waited < UNSCHEDULED_SECONDS:
        return people
    if Slot.UNSCHEDULED in found:
        return [("Unschedulable", waited >= DEADLINE_SECONDS)]
    return [("SchedulingGated", False)] * (Slot.GATED in found)


UNSCHEDULED_SECONDS, DEADLINE_SECONDS, SURGE_SECONDS = 30, 600, 300
"""Seconds until a pod without a node is a problem, until that needs a user, and until a rollout goes in place."""


def wrong(cluster: Cluster, facts: Facts) -> list[str]:
    """Return conditions that differ from the table, and messages that contradict facts, fields or each other."""
    status = cluster.resource["status"]
    shown = {each["type"]: each for each in status["conditions"]}
    found = [*violations(cluster.resource), *disagreements(cluster.resource)]
    if kstatus(cluster.resource) != facts.kstatus:
        found.append(f"kstatus is {kstatus(cluster.resource)}, by the table {facts.kstatus}")
    for kind in ("Available", "Degraded", "Ready", "WarmedUp", "Stalled", "Reconciling"):
        result, reason = expected_of(kind, facts)
        reason = {BY_PROBLEM: facts.problem, BY_READY: shown["Ready"]["reason"]}.get(reason, reason)
        if (shown[kind]["status"], shown[kind]["reason"]) != (result, reason):
            found.append(f"{kind} is {shown[kind]['status']} {shown[kind]['reason']}, by the table {result} {reason}")
    counted = {
        "readyReplicas": facts.serving,
        "expectedReadyReplicas": facts.expected,
        "updatedReplicas": facts.made,
        "replicas": facts.made + facts.old,
    }
    found += [
        f"{field} is {status[field]}, by the facts {fact}" for field, fact in counted.items() if status[field] != fact
    ]
    if len(status["pods"]) != facts.made + facts.old:
        found.append(f"the status lists {len(status['pods'])} pods, by the facts {facts.made + facts.old}")
    if re.search(r"\b(?:All \d+ replicas serve|1 replica serves)", shown["Ready"]["message"]) and not facts.ready:
        found.append(f"not all serve: {shown['Ready']['message']}")
    if (below := re.search(r"(\d+) pods? serves? although", shown["Degraded"]["message"])) and int(
        below[1]
    ) != facts.below:
        found.append(f"{facts.below} serve below the thresholds: {shown['Degraded']['message']}")
    return found
