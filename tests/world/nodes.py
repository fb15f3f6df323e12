"""Nodes, their cards and the containers on them: scheduler, kubelets, and the controller that watches nodes."""

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
"""Between two looks of a poll at its container: what changes in the second in which its node is lost, it may miss."""
_MOST_BACKOFF = 300
_NETWORK = "10.0.0."


@dataclass(frozen=True)
class Ended:
    """An instance that began and ended, in seconds of the world."""

    how: Exit
    began: int
    at: int


@dataclass
class Container:
    """The container of a pod that has a node: the instance that runs in it, or how and until when it rests."""

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
        """The instance that runs now; empty while none does."""
        return "" if self.ended else self.instance.name

    @property
    def serving(self) -> bool:
        """Whether it answers requests."""
        return self.ended is None and self.instance.serving


@dataclass
class Node:
    """`taken` cards are held by others; a node that is not `up` is heard of by nobody since `lost_at`.

    Until `refuses_until` it fails all pods that are sent to it.
    """

    cards: int
    taken: int = 0
    up: bool = True
    lost_at: int = 0
    refuses_until: int = 0


@dataclass
class Nodes:
    """All nodes; one pod needs one card. Containers are by pod UID; `cut_off` hears of pods that a lost node takes."""

    api: Api
    nodes: dict[str, Node]
    cut_off: Callable[[str], None]
    containers: dict[str, Container] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def at(self, address: str) -> Container | None:
        """The container of the pod with that address, whether it runs or rests."""
        return self.containers.get(address.removeprefix(_NETWORK))

    def reachable(self, container: Container) -> bool:
        """Whether anybody hears of a container's node."""
        return self.nodes[container.node].up

    def heard_at(self, container: Container, now: int) -> int:
        """When a container was last asked for sure; what has changed there since then, nobody can know."""
        return now if self.reachable(container) else self.nodes[container.node].lost_at - POLLED_SECONDS

    def turn(self, now: int) -> None:
        """One second of scheduler, kubelets and node controller."""
        for pod in self.api.kind("Pod"):
            container = self.containers.get(pod["metadata"]["uid"])
            if container is None:
                self._place(pod, now)
            elif self.reachable(container):
                self._keep(pod, container, now)
            else:
                self._miss(pod, self.nodes[container.node], now)

    def end(self, container: Container, how: Exit, now: int) -> None:
        """A container ends; its kubelet starts it again, later from time to time."""
        container.ended = Ended(how, container.instance.born, now)
        delay = min(_MOST_BACKOFF, 10 * 2 ** (container.restarts - 1)) if container.restarts else 0
        container.resting_until = now + 1 + delay

    def fail(self, pod: Object, container: Container, now: int) -> None:
        """A pod ends as a whole; its card is free, and it stays there to be read."""
        del self.containers[container.pod]
        conditions = with_condition(pod["status"]["conditions"], "Ready", False, stamp(now))
        conditions = with_condition(conditions, "DisruptionTarget", True, stamp(now), "TerminationByKubelet")
        said = {"reason": "Evicted", "message": "The node was low on resource: memory."}
        self.api.status(pod, phase="Failed", conditions=conditions, containerStatuses=[], **said)

    def _place(self, pod: Object, now: int) -> None:
        if ending(pod):
            self.api.remove("Pod", pod["metadata"]["name"])
        if not counts(pod):
            return
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
        self._show(pod, self.containers[uid], now)

    def _free(self, name: str) -> int:
        node = self.nodes[name]
        return node.cards - node.taken - sum(each.node == name for each in self.containers.values())

    def _unschedulable(self, pod: Object, now: int) -> None:
        if condition(pod, "PodScheduled").get("reason") == "Unschedulable":
            return
        self.api.status(pod, **pods.unschedulable(pod, stamp(now), "0/2 nodes are available: insufficient cards."))

    def _keep(self, pod: Object, container: Container, now: int) -> None:
        if ending(pod):
            container.gone_at = container.gone_at or now + DRAIN_SECONDS
            if now >= container.gone_at:
                del self.containers[container.pod]
                self.api.remove("Pod", pod["metadata"]["name"])
            return
        # What has happened is shown a second later than it happens, as a kubelet does.
        self._show(pod, container, now)
        self._live(container, now)

    def _live(self, container: Container, now: int) -> None:
        if container.ended is None:
            how = container.instance.live(now)
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

    def _show(self, pod: Object, container: Container, now: int) -> None:
        fresh = pods.running(pod, f"{_NETWORK}{container.pod}", _shown(container, now), stamp(now))
        if fresh != pod.get("status"):
            self.api.status(pod, **fresh)

    def _miss(self, pod: Object, node: Node, now: int) -> None:
        """What the control plane does about a pod whose node is silent."""
        if now - node.lost_at >= LOST_SECONDS and condition(pod, "Ready").get("status") == "True":
            conditions = with_condition(pod["status"]["conditions"], "Ready", False, stamp(now))
            self.cut_off(pod["metadata"]["uid"])
            pod = self.api.status(pod, conditions=conditions)
        if now - node.lost_at >= EVICTED_SECONDS and not ending(pod):
            self.cut_off(pod["metadata"]["uid"])
            delete_pod(self.api, pod, now)

    def _name(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"


def delete_pod(api: Api, pod: Object, now: int) -> None:
    """Ask for a pod's end: it has its grace period for it."""
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
