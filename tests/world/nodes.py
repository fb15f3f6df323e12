"""Nodes with their cards and containers, and the scheduler, the kubelets and the node controller."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from tests.world import pods
from tests.world.api import Api, Object, condition, counts, ending, with_condition
from tests.world.clock import moment, stamp
from tests.world.runtime import Exit, Instance, behaviour

DRAIN_SECONDS = 3
LOST_SECONDS = 40
EVICTED_SECONDS = 100
LIVENESS_SECONDS = 60
POLLED_SECONDS = 1
"""Seconds between two polls of a container. The poll may miss a change in the second in which the node is lost."""
_MOST_BACKOFF = 300
_NETWORK = "10.0.0."


@dataclass(frozen=True)
class Ended:
    """An instance that has ended, with the start and the end in simulated seconds."""

    how: Exit
    began: int
    at: int


@dataclass
class Container:
    """The container of a pod on a node.

    It has an instance, the end of this instance, and the time of the next start.
    """

    pod: str
    node: str
    instance: Instance
    name: str
    stall_seconds: int
    restarts: int = 0
    ended: Ended | None = None
    last: Ended | None = None
    resting_until: int = 0
    gone_at: int | None = None

    @property
    def running(self) -> str:
        """The name of the running instance, or an empty string if no instance runs."""
        return "" if self.ended else self.instance.name

    @property
    def serving(self) -> bool:
        """Whether the container answers requests."""
        return self.ended is None and self.instance.serving


@dataclass
class Node:
    """One node. Other workloads use `taken` cards. If `up` is False, the node has been unreachable since `lost_at`.

    The node fails all new pods until `refuses_until`.
    """

    cards: int
    taken: int = 0
    up: bool = True
    lost_at: int = 0
    refuses_until: int = 0


@dataclass
class Nodes:
    """All nodes. A pod needs one card.

    The keys of `containers` are pod UIDs. `cut_off` is called for each pod of a lost node.

    `admitted` is the number of pods that a quota system admits, or None if there is no quota system.
    """

    api: Api
    nodes: dict[str, Node]
    cut_off: Callable[[str], None]
    containers: dict[str, Container] = field(default_factory=dict)
    admitted: int | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def at(self, address: str) -> Container | None:
        """Return the container of the pod with `address`, even if the container does not run."""
        return self.containers.get(address.removeprefix(_NETWORK))

    def reachable(self, container: Container) -> bool:
        """Return True if the node of a container is reachable."""
        return self.nodes[container.node].up

    def last_contact(self, container: Container, now: int) -> int:
        """Return the time of the last poll that certainly reached the container.

        The operator does not know later changes.
        """
        return now if self.reachable(container) else self.nodes[container.node].lost_at - POLLED_SECONDS

    def advance(self, now: int) -> None:
        """Run the scheduler, the kubelets and the node controller for one second."""
        for pod in self.api.kind("Pod"):
            container = self.containers.get(pod["metadata"]["uid"])
            if container is None:
                self._place(pod, now)
            elif self.reachable(container):
                self._sync(pod, container, now)
            else:
                self._handle_lost_node(pod, self.nodes[container.node], now)

    def end(self, container: Container, how: Exit, now: int) -> None:
        """End a container. The kubelet restarts the container after a delay that grows with each restart."""
        container.ended = Ended(how, container.instance.born, now)
        delay = min(_MOST_BACKOFF, 10 * 2 ** (container.restarts - 1)) if container.restarts else 0
        container.resting_until = now + 1 + delay

    def fail(self, pod: Object, container: Container, now: int) -> None:
        """Evict a pod. Its card becomes free, and the pod object remains."""
        del self.containers[container.pod]
        conditions = with_condition(pod["status"]["conditions"], "Ready", False, stamp(now))
        conditions = with_condition(conditions, "DisruptionTarget", True, stamp(now), "TerminationByKubelet")
        fields = {"reason": "Evicted", "message": "The node was low on resource: memory."}
        self.api.status(pod, phase="Failed", conditions=conditions, containerStatuses=[], **fields)

    def _place(self, pod: Object, now: int) -> None:
        if ending(pod):
            self.api.remove("Pod", pod["metadata"]["name"])
        if not counts(pod) or self._gate(pod, now):
            return
        pod = self.api.objects["Pod", pod["metadata"]["name"]]
        free = {name: self._free(name) for name, node in self.nodes.items() if node.up}
        best = max(free, key=free.__getitem__, default=None)
        if best is None or free[best] <= 0:
            self._unschedulable(pod, now)
            return
        if now < self.nodes[best].refuses_until:
            self.api.status(pod, **pods.refused(stamp(now)))
            return
        uid, annotations = pod["metadata"]["uid"], pod["metadata"]["annotations"]
        instance = Instance(self._name("i"), behaviour(pod), annotations[PLAN_HASH_ANNOTATION], now)
        stall = _stall_seconds(self.api)
        self.containers[uid] = Container(uid, best, instance, self._name("c"), stall)
        self._write_status(pod, self.containers[uid], now)

    def _gate(self, pod: Object, now: int) -> bool:
        """Return True if a scheduling gate holds the pod. Only new pods get a gate."""
        gated, fresh = pods.is_gated(pod), not condition(pod, "PodScheduled")
        if not gated and not fresh:
            return False
        others = (each for each in self.api.kind("Pod") if each["metadata"]["uid"] != pod["metadata"]["uid"])
        used = sum(
            not pods.is_gated(each) and bool(condition(each, "PodScheduled")) and not _failed(each) for each in others
        )
        held = self.admitted is not None and used >= self.admitted
        if gated and not held:
            self.api.put({**pod, "spec": {**pod["spec"], "schedulingGates": []}})
        if fresh and held:
            spec = {**pod["spec"], "schedulingGates": [{"name": pods.GATE}]}
            self.api.put({**pod, "spec": spec, "status": pods.gated(pod, stamp(now))})
        return held

    def _free(self, name: str) -> int:
        node = self.nodes[name]
        return node.cards - node.taken - sum(each.node == name for each in self.containers.values())

    def _unschedulable(self, pod: Object, now: int) -> None:
        if condition(pod, "PodScheduled").get("reason") == "Unschedulable":
            return
        self.api.status(pod, **pods.unschedulable(pod, stamp(now), "0/2 nodes are available: insufficient cards."))

    def _sync(self, pod: Object, container: Container, now: int) -> None:
        if ending(pod):
            container.gone_at = container.gone_at or now + DRAIN_SECONDS
            if now >= container.gone_at:
                del self.containers[container.pod]
                self.api.remove("Pod", pod["metadata"]["name"])
            return
        # Write the previous state before the container advances, because a kubelet writes the status one second after a
        # change.
        self._write_status(pod, container, now)
        self._run(container, now)

    def _run(self, container: Container, now: int) -> None:
        if container.ended is None:
            how = container.instance.advance(now)
            stuck = now - container.instance.moved_at > container.stall_seconds + LIVENESS_SECONDS
            if how is None and stuck and not container.instance.serving:
                how = Exit("Error", 137)
            if how:
                self.end(container, how, now)
        elif now >= container.resting_until:
            old = container.instance
            container.instance = Instance(self._name("i"), old.behaviour, old.plan_hash, now)
            container.name, container.restarts = self._name("c"), container.restarts + 1
            container.last, container.ended = container.ended, None

    def _write_status(self, pod: Object, container: Container, now: int) -> None:
        fresh = pods.running(pod, f"{_NETWORK}{container.pod}", _shown(container, now), stamp(now))
        if fresh != pod.get("status"):
            self.api.status(pod, **fresh)

    def _handle_lost_node(self, pod: Object, node: Node, now: int) -> None:
        """Handle a pod on an unreachable node as the control plane does."""
        if now - node.lost_at >= LOST_SECONDS and condition(pod, "Ready").get("status") == "True":
            conditions = with_condition(pod["status"]["conditions"], "Ready", False, stamp(now))
            self.cut_off(pod["metadata"]["uid"])
            pod = self.api.status(pod, conditions=conditions)
        if now - node.lost_at >= EVICTED_SECONDS and not ending(pod):
            self.cut_off(pod["metadata"]["uid"])
            delete_pod(self.api, pod, now)

    def _name(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"


def _failed(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Failed")


def delete_pod(api: Api, pod: Object, now: int) -> None:
    """Delete a pod. The pod terminates within its grace period."""
    if not ending(pod):
        api.put(pod, deletionTimestamp=stamp(now + pod["spec"]["terminationGracePeriodSeconds"]))


def _shown(container: Container, now: int) -> Object:
    last = container.last
    state: Object = {"running": {"startedAt": moment(container.instance.born).isoformat()}}
    if container.ended and container.resting_until - now <= 1:
        state = {"terminated": _terminated(container.ended)}
    elif container.ended:
        last, state = container.ended, {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting."}}
    ended = _terminated(last) if last else None
    return pods.container_status(container.name, container.serving, container.restarts, state, ended)


def _terminated(ended: Ended) -> Object:
    how, times = ended.how, {"startedAt": stamp(ended.began), "finishedAt": stamp(ended.at)}
    return {"reason": how.reason, "exitCode": how.code, "message": "Segmentation fault", **times}


def _stall_seconds(api: Api) -> int:
    resource = api.kind("GaudiInference")[0]
    return int(resource["spec"].get("warmup", {}).get("stallTimeoutSeconds", 1800))
