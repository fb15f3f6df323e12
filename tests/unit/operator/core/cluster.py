"""A cluster in memory, without time of its own: keeps objects, and plays ReplicaSet controller and kubelet by hand.

It is no API server (tests/cluster has a real one): it exists so that thousands of whole stories of decide() can be
run in seconds, from any state.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.core.actions import Action, Apply, Decision, Delete, Event, SetDeletionCost, SetGate
from gaudi_operator.core.decide import decide
from gaudi_operator.core.names import (
    CONTAINER,
    DELETION_COST_ANNOTATION,
    GATE,
    PLAN_HASH_ANNOTATION,
    REMOVED_FIRST,
    REVISION_LABEL,
)
from gaudi_operator.core.observed import InstallationDefaults, Observed, PodReport
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.builders import Object, copied
from tests.unit.operator.core.reports import FULL
from tests.unit.operator.core.resources import DEFAULTS, NOW


def stamp(moment: datetime) -> str:
    """As Kubernetes writes moments."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Cluster:
    """One resource and its children.

    `broken` are revisions whose pods never warm up. `cards` bounds pods that have a node, None is enough for all.
    """

    resource: Object
    defaults: InstallationDefaults = DEFAULTS
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    reports: dict[str, PodReport] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    cards: int | None = None
    now: datetime = NOW
    status_written: datetime | None = None
    events: list[Event] = field(default_factory=list)
    status_writes: int = 0
    made: int = 0

    def kind(self, kind: str) -> list[Object]:
        """All objects of a kind, by name."""
        return [each for (its, _), each in sorted(self.objects.items()) if its == kind]

    def observed(self) -> Observed:
        """What the operator would see."""
        seen = copied(self)
        return Observed(
            resource=seen.resource,
            revisions=tuple(seen.kind("ControllerRevision")),
            replica_sets=tuple(seen.kind("ReplicaSet")),
            pods=tuple(seen.kind("Pod")),
            services=tuple(seen.kind("Service")),
            config_maps=tuple(seen.kind("ConfigMap")),
            service_accounts=tuple(seen.kind("ServiceAccount")),
            pvcs=tuple(seen.kind("PersistentVolumeClaim")),
            pod_disruption_budgets=tuple(seen.kind("PodDisruptionBudget")),
            network_policies=tuple(seen.kind("NetworkPolicy")),
            autoscalers=tuple(seen.kind("HorizontalPodAutoscaler")),
            reports=seen.reports,
            now=self.now,
            status_written=self.status_written,
        )

    def operate(self) -> Decision:
        """One pass of the operator, carried out; time goes on by a second."""
        self.now += timedelta(seconds=1)
        plan = decide(self.observed(), self.defaults)
        for action in plan.actions:
            self.perform(action)
        self.show(plan)
        return plan

    def show(self, plan: Decision) -> None:
        """Write the status if it has changed."""
        status = plan.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.resource.get("status") != status:
            self.resource["status"] = status
            self.status_written = self.now
            self.status_writes += 1
        self.events += plan.events

    def perform(self, action: Action) -> None:
        """Carry out one action."""
        match action:
            case Apply():
                self._apply(copied(dict(action.manifest)))
            case Delete():
                self._delete(action)
            case SetGate():
                self._set_gate(action)
            case SetDeletionCost():
                self._set_cost(action)

    def delete(self, kind: str, name: str) -> None:
        """Somebody deletes an object; the garbage collector follows with what it owns."""
        gone = self.objects.pop((kind, name))
        if kind == "ReplicaSet":
            for pod in self.kind("Pod"):
                if pod["metadata"]["labels"][REVISION_LABEL] == gone["metadata"]["labels"][REVISION_LABEL]:
                    del self.objects["Pod", pod["metadata"]["name"]]

    def change(self, generation: int | None = None, **spec: Any) -> None:
        """Change fields of the spec, level by level; the generation grows by one."""
        _merge(self.resource["spec"], spec)
        metadata = self.resource["metadata"]
        metadata["generation"] = generation or metadata["generation"] + 1

    def controllers(self) -> None:
        """One turn of the ReplicaSet controller and of the deletion of pods."""
        for name, pod in [(name, pod) for (kind, name), pod in self.objects.items() if kind == "Pod"]:
            if "deletionTimestamp" in pod["metadata"]:
                del self.objects["Pod", name]
                self.reports.pop(pod["metadata"]["uid"], None)
        for replica_set in self.kind("ReplicaSet"):
            self._follow(replica_set)
        self._schedule()

    def warm(self, name: str) -> None:
        """A pod that is not broken reports that it serves."""
        pod = self.objects["Pod", name]
        if pod["metadata"]["labels"][REVISION_LABEL] not in self.broken:
            self.report(name, Phase.SERVING)

    def placed(self, name: str) -> bool:
        """Whether a pod has a node, and so a container."""
        return "containerStatuses" in self.objects["Pod", name]["status"]

    def report(self, name: str, phase: Phase, **fields: Any) -> None:
        """A report of the pod's running container arrives, and its readiness probe follows."""
        if not self.placed(name):
            return
        pod = self.objects["Pod", name]
        status = pod["status"]["containerStatuses"][0]
        given: dict[str, Any] = {"instance": status["containerID"], "sequence": 1, "prompt": FULL, "decode": FULL}
        hashed = pod["metadata"]["annotations"][PLAN_HASH_ANNOTATION]
        word = WarmupReport(phase=phase, plan_hash=hashed, **{**given, **fields})
        self.reports[pod["metadata"]["uid"]] = PodReport(status["containerID"], self.now, word)
        status["ready"] = phase is Phase.SERVING

    def restart(self, name: str) -> None:
        """The container of a pod dies and another one starts."""
        if not self.placed(name):
            return
        self.made += 1
        status = self.objects["Pod", name]["status"]["containerStatuses"][0]
        status |= {"containerID": f"c{self.made}", "ready": False}

    def kubelet(self) -> None:
        """Ready follows the container and the gate."""
        for pod in self.kind("Pod"):
            containers = pod["status"].get("containerStatuses", [])
            ready = any(each["ready"] for each in containers) and _gate_is_open(pod)
            self._condition(pod, "Ready", ready)

    def settle(self, turns: int = 60) -> Decision:
        """Everybody takes turns, and every pod warms up, until the operator has nothing to do any more.

        While nothing moves, the clock goes on to the moment at which the operator wants to look again.
        """
        for _ in range(turns):
            plan = self.operate()
            before = copied(self.objects), self._said()
            self.controllers()
            for pod in self.kind("Pod"):
                if "deletionTimestamp" not in pod["metadata"]:
                    self.warm(pod["metadata"]["name"])
            self.kubelet()
            if plan.actions or before != (self.objects, self._said()):
                continue
            if plan.look_again_seconds is None:
                return plan
            self.now += timedelta(seconds=plan.look_again_seconds)
        raise AssertionError(f"no rest after {turns} turns: {plan.actions}")

    def _said(self) -> dict[str, WarmupReport | None]:
        return {uid: word.report for uid, word in self.reports.items()}

    def _apply(self, manifest: Object) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        live = self.objects.get(key)
        self.made += 1
        kept = live["metadata"] if live else {"uid": f"uid-{self.made}"}
        if live and (live.get("immutable") or manifest["kind"] == "ControllerRevision"):
            assert live["data"] == manifest["data"], "the API server refuses another content"
        foreign = {name: value for name, value in (live or {}).items() if name not in manifest}
        self.objects[key] = {**foreign, **manifest, "metadata": {**kept, **manifest["metadata"]}}

    def _delete(self, action: Delete) -> None:
        live = self.objects.get((action.kind, action.name))
        if live and live["metadata"]["uid"] == action.uid:
            del self.objects[action.kind, action.name]

    def _set_gate(self, action: SetGate) -> None:
        pod = self.objects.get(("Pod", action.pod))
        if pod and pod["metadata"]["uid"] == action.uid:
            self._condition(pod, GATE, action.open, action.reason, action.message)

    def _set_cost(self, action: SetDeletionCost) -> None:
        pod = self.objects.get(("Pod", action.pod))
        if pod and pod["metadata"]["uid"] == action.uid:
            annotations = pod["metadata"]["annotations"]
            annotations.pop(DELETION_COST_ANNOTATION, None)
            if action.removed_first:
                annotations[DELETION_COST_ANNOTATION] = str(REMOVED_FIRST)

    def _condition(self, pod: Object, kind: str, true: bool, reason: str = "", message: str = "") -> None:
        conditions = pod["status"].setdefault("conditions", [])
        known = next((each for each in conditions if each["type"] == kind), None)
        status = "True" if true else "False"
        since = known["lastTransitionTime"] if known and known["status"] == status else stamp(self.now)
        written = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        if known is None:
            conditions.append(written)
        else:
            known.update(written)

    def _follow(self, replica_set: Object) -> None:
        revision = replica_set["metadata"]["labels"][REVISION_LABEL]
        mine = [
            pod
            for pod in self.kind("Pod")
            if pod["metadata"]["labels"][REVISION_LABEL] == revision
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"]["phase"] != "Failed"
        ]
        desired = replica_set["spec"]["replicas"]
        mine.sort(key=lambda pod: ("containerStatuses" in pod["status"], _is_ready(pod), _cost(pod)), reverse=True)
        for pod in mine[desired:]:
            pod["metadata"]["deletionTimestamp"] = stamp(self.now)
        for _ in range(desired - len(mine)):
            self._make_pod(replica_set)

    def _make_pod(self, replica_set: Object) -> None:
        self.made += 1
        name = f"{replica_set['metadata']['name']}-{self.made:04}"
        template = copied(replica_set["spec"]["template"])
        self.objects["Pod", name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template["metadata"],
                "name": name,
                "uid": f"uid-{self.made}",
                "creationTimestamp": stamp(self.now),
            },
            "spec": template["spec"],
            "status": {"phase": "Pending", "conditions": []},
        }

    def _schedule(self) -> None:
        """Pods that have a card each, those that end among them; the rest hears that no node fits."""
        pods = self.kind("Pod")
        free = len(pods) if self.cards is None else self.cards
        free -= sum(self.placed(pod["metadata"]["name"]) for pod in pods)
        for pod in pods:
            if "containerStatuses" in pod["status"] or "deletionTimestamp" in pod["metadata"]:
                continue
            if pod["status"]["phase"] == "Failed":
                continue
            if free <= 0:
                self._condition(pod, "PodScheduled", False, "Unschedulable", "0/1 nodes are available")
                continue
            free -= 1
            self._run(pod)

    def _run(self, pod: Object) -> None:
        self.made += 1
        container = {"name": CONTAINER, "containerID": f"c{self.made}", "state": {"running": {}}, "ready": False}
        pod["status"] |= {"phase": "Running", "containerStatuses": [container]}
        self._condition(pod, "PodScheduled", True)


def upgraded(defaults: InstallationDefaults) -> InstallationDefaults:
    """The same installation with a newer operator's images."""
    return replace(defaults, runtime_image="runtime:2", hpu_image="runtime-hpu:2")


def _is_ready(pod: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])


def _cost(pod: Object) -> int:
    return int(pod["metadata"]["annotations"].get(DELETION_COST_ANNOTATION, 0))


def _gate_is_open(pod: Object) -> bool:
    return any(each["type"] == GATE and each["status"] == "True" for each in pod["status"]["conditions"])


def _merge(target: Object, change: Object) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value
