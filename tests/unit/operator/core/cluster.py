"""An in-memory cluster without a clock: the test chooses which component acts next and what the pods report.

The API server, the controllers and the kubelet rules come from tests/world. Writes go through the operator's shell. So
thousands of scenarios for decide() run in seconds and start from any state.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.api.v1alpha1.tracing import TraceReceiver
from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Action, Decision, Event
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck, FindResult
from gaudi_operator.core.decide import decide
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import PLAN_HASH_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.observed import Observed, ObservedReport
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.client import ClusterClient as Client
from gaudi_operator.shell.kinds import RESOURCE, kind_of
from gaudi_operator.shell.watching.store import Store, StoreKey
from gaudi_operator.shell.watching.trimmed_objects import trim_object
from gaudi_operator.shell.writing.writer import Writer
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.support.builders import Object, copied
from tests.unit.operator.core.reports import FULL, PLANNED
from tests.unit.operator.core.resources import DEFAULTS, NOW
from tests.world import controllers, pods
from tests.world.api import Api, ending
from tests.world.api_server import ApiServer
from tests.world.clock import START

_ADDRESS = "10.0.0.1"


def stamp(moment: datetime) -> str:
    """Return a time in the format of Kubernetes."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def controllers_of(pod: Object) -> set[str]:
    """Return the UIDs of an object's controllers. The operator ignores pods without a controller."""
    return {each["uid"] for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")}


@dataclass
class Cluster:
    """One resource and its children.

    Pods of the revisions in `broken` never warm up. `cards` limits the number of scheduled pods; None means no limit.
    If `queue` is true, a quota system enforces this limit with scheduling gates.
    """

    resource: Object
    defaults: InstallationDefaults = DEFAULTS
    api: Api = field(default_factory=Api)
    reports: dict[str, ObservedReport] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    cards: int | None = None
    queue: bool = False
    classes: tuple[Object, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    now: datetime = NOW
    status_written: datetime | None = None
    events: list[Event] = field(default_factory=list)
    status_writes: int = 0
    started: int = 0

    @property
    def objects(self) -> dict[tuple[str, str], Object]:
        """All objects except the resource, by kind and name."""
        return self.api.objects

    @property
    def seconds(self) -> float:
        """The number of seconds since `START`."""
        return (self.now - START).total_seconds()

    def kind(self, kind: str) -> list[Object]:
        """Return all objects of a kind, sorted by name."""
        return self.api.kind(kind)

    def observed(self) -> Observed:
        """Return the state that the operator observes, with only the fields that the operator's store keeps."""
        resource, reports, objects = copied((self.resource, self.reports, self.objects))
        seen = Api({name: trim_object(kind_of(each), each) for name, each in objects.items()})
        workloads = {each["metadata"]["uid"] for each in (*seen.kind("ReplicaSet"), *seen.kind("StatefulSet"))}
        return Observed(
            resource=trim_object(RESOURCE, resource),
            revisions=tuple(seen.kind("ControllerRevision")),
            replica_sets=tuple(seen.kind("ReplicaSet")),
            pods=tuple(each for each in seen.kind("Pod") if workloads & controllers_of(each)),
            services=tuple(seen.kind("Service")),
            config_maps=tuple(seen.kind("ConfigMap")),
            service_accounts=tuple(seen.kind("ServiceAccount")),
            pvcs=tuple(seen.kind("PersistentVolumeClaim")),
            pod_disruption_budgets=tuple(seen.kind("PodDisruptionBudget")),
            network_policies=tuple(seen.kind("NetworkPolicy")),
            autoscalers=tuple(seen.kind("HorizontalPodAutoscaler")),
            reports=reports,
            classes=self.classes,
            namespace_labels=self.namespace_labels,
            now=self.now,
            status_written_at=self.status_written,
            status_held_since=START,  # short-lived states are over at the next reconcile
        )

    def operate(self, find_result: FindResult = BucketPolicyCheck.run) -> Decision:
        """Run one reconcile and perform its actions. The clock advances by one second."""
        self.now += timedelta(seconds=1)
        plan = decide(self.observed(), self.defaults, find_result)
        self.perform(*plan.actions)
        self.show(plan)
        # The operator's own writes do not start a reconcile. So if no requeue is scheduled, a second decision must have
        # no actions.
        if plan.requeue_after is None and plan.pending_check is None:
            again = decide(self.observed(), self.defaults, find_result)
            assert again.actions == ()
            assert again.status == plan.status
        return plan

    def show(self, plan: Decision) -> None:
        """Write the status if it has changed and belongs to this installation."""
        if not plan.writes_status:
            return
        status = plan.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.resource.get("status") != status:
            self.resource["status"] = status
            self.status_written = self.now
            self.status_writes += 1
        self.events += plan.events

    def perform(self, *actions: Action) -> None:
        """Perform actions through the operator's shell."""
        if not actions:
            return
        namespace, store = self.resource["metadata"]["namespace"], Store()
        for each in (
            {**self.resource, "metadata": {**self.resource["metadata"], "resourceVersion": "1"}},
            *self.objects.values(),
        ):
            store.put(each)
        transport = _Memory(ApiServer({(namespace, ""): self.api}, lambda: self.seconds))
        writer = Writer(Client(transport, lambda *_: None), store, Clock(now=lambda: self.now))
        key = StoreKey(namespace, self.resource["metadata"]["name"])
        for action in actions:
            with suppress(StopIteration):
                writer.perform(key, action).send(None)
                raise AssertionError("the API server in memory did not answer at once")

    def delete(self, kind: str, name: str) -> None:
        """Delete an object like another client. For a ReplicaSet, also delete its pods, like the garbage collector."""
        gone = self.objects.pop((kind, name))
        if kind == "ReplicaSet":
            for pod in self.kind("Pod"):
                if pod["metadata"]["labels"][REVISION_LABEL] == gone["metadata"]["labels"][REVISION_LABEL]:
                    del self.objects["Pod", pod["metadata"]["name"]]

    def change(self, generation: int | None = None, **spec: Any) -> None:
        """Merge changes into the spec and increment the generation."""
        _merge(self.resource["spec"], spec)
        metadata = self.resource["metadata"]
        metadata["generation"] = generation or metadata["generation"] + 1

    def controllers(self) -> None:
        """Remove terminating pods, and run the ReplicaSet controller and the scheduler once."""
        for pod in self.kind("Pod"):
            if ending(pod):
                self.api.remove("Pod", pod["metadata"]["name"])
                self.reports.pop(pod["metadata"]["uid"], None)
        controllers.advance(self.api, None, self.seconds, {self.resource["metadata"]["uid"]})
        self._schedule()

    def warm(self, name: str) -> None:
        """Let a pod report that it serves, unless its revision is broken."""
        pod = self.objects["Pod", name]
        if pod["metadata"]["labels"][REVISION_LABEL] not in self.broken:
            self.report(name, Phase.SERVING)

    def placed(self, name: str) -> bool:
        """Return whether a pod is scheduled. Only a scheduled pod has a container."""
        return pods.placed(self.objects["Pod", name])

    def report(self, name: str, phase: Phase, **fields: Any) -> None:
        """Receive a report of the pod's running container, and update the container's readiness."""
        if not self.placed(name):
            return
        pod = self.objects["Pod", name]
        status = pod["status"]["containerStatuses"][0]
        given: dict[str, Any] = {"instance": status["containerID"], "sequence": 1, "prompt": FULL, "decode": FULL}
        given |= PLANNED
        given["plan_hash"] = pod["metadata"]["annotations"][PLAN_HASH_ANNOTATION]
        received = WarmupReport(phase=phase, **{**given, **fields})
        self.reports[pod["metadata"]["uid"]] = ObservedReport(status["containerID"], self.now, received)
        status["ready"] = phase is Phase.SERVING

    def restart(self, name: str) -> None:
        """Restart the container of a pod."""
        if not self.placed(name):
            return
        pod = self.objects["Pod", name]
        pod["status"]["containerStatuses"][0] |= {"containerID": self._container(), "ready": False}
        self._write_pod_status(pod)

    def kubelet(self) -> None:
        """Set the Ready condition from the container and the readiness gate."""
        for pod in self.kind("Pod"):
            self._write_pod_status(pod)

    def _write_pod_status(self, pod: Object) -> None:
        for container in (pod.get("status") or {}).get("containerStatuses", ()):
            self.api.status(pod, **pods.running(pod, _ADDRESS, container, stamp(self.now)))

    def settle(self, turns: int = 60) -> Decision:
        """Let the operator, the controllers and the kubelet act in turn until nothing changes.

        If nothing changes but the operator has requested another reconcile, advance the clock to that time.
        """
        for _ in range(turns):
            plan = self.operate()
            before = copied(self.objects), self._latest_reports()
            self.controllers()
            for pod in self.kind("Pod"):
                if "deletionTimestamp" not in pod["metadata"]:
                    self.warm(pod["metadata"]["name"])
            self.kubelet()
            if plan.actions or before != (self.objects, self._latest_reports()):
                continue
            if plan.requeue_after is None:
                return plan
            self.now += timedelta(seconds=plan.requeue_after)
        raise AssertionError(f"no rest after {turns} turns: {plan.actions}")

    def _latest_reports(self) -> dict[str, WarmupReport | None]:
        return {uid: received.report for uid, received in self.reports.items()}

    def _schedule(self) -> None:
        """Schedule pods while cards are free, and mark the other pods as unschedulable. Terminating pods hold cards."""
        known = self.kind("Pod")
        free = len(known) if self.cards is None else self.cards
        free -= sum(map(pods.placed, known))
        for pod in known:
            if pods.placed(pod) or ending(pod) or pod["status"]["phase"] == "Failed":
                continue
            now = stamp(self.now)
            if free <= 0 and self.queue:
                pod["spec"]["schedulingGates"] = [{"name": pods.GATE}]
                self.api.status(pod, **pods.gated(pod, now))
                continue
            if free <= 0:
                self.api.status(pod, **pods.unschedulable(pod, now, "0/1 nodes are available"))
                continue
            free -= 1
            pod["spec"].pop("schedulingGates", None)
            container = pods.container_status(self._container(), False, 0, {"running": {}})
            self.api.status(pod, **pods.running(pod, _ADDRESS, container, now))

    def _container(self) -> str:
        self.started += 1
        return f"c{self.started}"


@dataclass
class _Memory:
    """A transport to an in-memory API server, which responds immediately."""

    server: ApiServer

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str, _: float
    ) -> ApiClientResponse:
        """Send one request."""
        return self.server.answer(method, path, body, content_type)


def upgraded(defaults: InstallationDefaults) -> InstallationDefaults:
    """Return the installation defaults of a newer operator: other images, and a trace collector."""
    tracing = TraceReceiver.model_validate({"endpoint": "http://collector:4317"})
    return replace(defaults, runtime_image="runtime:2", hpu_image="runtime-hpu:2", tracing=tracing)


def _merge(target: Object, change: Object) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value
