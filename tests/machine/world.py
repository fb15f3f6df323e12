"""The world in memory: an API server, controllers, nodes and one operator at a time, second by second, on record."""

from collections import deque
from datetime import datetime

from gaudi_operator.core.names import FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION, REVISION_LABEL
from gaudi_operator.core.observed import InstallationDefaults
from gaudi_operator.core.rollout.revision import undo_patch
from gaudi_operator.shell.store import Key
from tests.builders import gaudi_inference, merged, patched
from tests.laws.history import History, Runtime
from tests.laws.reading import moment
from tests.machine import commands, controllers
from tests.machine.actions import NODES
from tests.machine.api import Api, Object, condition, counts, ending, owner
from tests.machine.clock import START
from tests.machine.nodes import Node, Nodes, delete_pod
from tests.machine.runtime import FAILS, WORKS, Behaviour, Exit, behaviour
from tests.machine.shell import Fault, Shell

LAG_SECONDS = 4.0
KUBELET_SECONDS = 5.0
ELECTION_SECONDS = 3
QUIET_SECONDS = 90
MOST_SECONDS = 4000
DEFAULTS = InstallationDefaults(runtime_image="runtime:1", hpu_image="runtime-hpu:1", allow_host_path=True)
NAME = "tiny"


class World:
    """One resource and all around it. `history` is the record that laws are judged on."""

    def __init__(self, **spec: object) -> None:
        """The resource was just created, and an operator has just been elected."""
        self.now, self.api, self.faults = 0, Api(), deque[Fault]()
        self.quota: int | None = None
        self.history = History(lag=LAG_SECONDS, kubelet=KUBELET_SECONDS)
        self.nodes = Nodes(self.api, {name: Node(cards=4) for name in NODES}, self._taken)
        self.api.put(gaudi_inference(NAME, "models", **spec), generation=1)
        self.operator = self._elected()
        self._acting: list[float] = self.history.others
        self.api.changed = self._changed
        self._record()

    @property
    def resource(self) -> Object:
        """The resource as it stands."""
        return self.api.objects["GaudiInference", NAME]

    @property
    def pods(self) -> list[str]:
        """Names of the pods that count as replicas."""
        return [each["metadata"]["name"] for each in self.api.kind("Pod") if counts(each)]

    @property
    def children(self) -> list[tuple[str, str]]:
        """Kind and name of all that the operator has made."""
        return [name for name in sorted(self.api.objects) if name[0] not in ("Pod", "GaudiInference")]

    @property
    def revisions(self) -> list[str]:
        """Names of the kept revisions."""
        return [each["metadata"]["labels"][REVISION_LABEL] for each in self.api.kind("ControllerRevision")]

    def do(self, command: commands.Command) -> None:
        """Let something happen."""
        match command:
            case commands.PassTime():
                self._pass(command.seconds)
            case commands.ChangeSpec():
                self._change({"spec": command.patch})
            case commands.Restart():
                self._change({"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: command.value}}})
            case commands.Undo():
                kept = self.api.objects["ControllerRevision", f"{NAME}-{command.revision}"]
                self._replace(patched(self.resource, undo_patch(self.resource, kept["data"]["inputs"])))
            case commands.Forgive():
                self._forgive(command.revision)
            case commands.KillPod():
                self._kill(self.api.objects["Pod", command.pod])
            case commands.EndContainer():
                self._end(self.api.objects["Pod", command.pod]["metadata"]["uid"])
            case commands.FailPod():
                self._fail(self.api.objects["Pod", command.pod])
            case commands.RefusePods():
                self.nodes.nodes[command.node].refuses_until = self.now + command.seconds
            case commands.Load():
                self._load(command)
            case commands.LoseNode():
                self._lose(self.nodes.nodes[command.node], command.node)
            case commands.ReturnNode():
                self._return(self.nodes.nodes[command.node], command)
            case commands.TakeCards():
                self.nodes.nodes[command.node].taken = command.cards
            case commands.LimitPods():
                self.quota = command.pods
            case commands.DeleteChild():
                self._delete(command)
            case commands.BreakWrites():
                self.faults.extend(command.faults)
            case commands.BlindWatch():
                self._blind(command)
            case commands.KillOperator():
                self.operator = self._elected()
        self._record()

    def calm(self) -> None:
        """Faults stop, what was broken is fixed, and time passes until nothing has moved for long.

        Cards and quota stay as scarce as they are where all replicas have room: a rollout ends without more, too.
        """
        self.faults.clear()
        self.operator.blind.clear()
        desired = self.resource["spec"].get("replicas", 1)
        if self.quota is not None and self.quota < desired:
            self.quota = None
        scarce = sum(node.cards - node.taken for node in self.nodes.nodes.values()) < desired
        for name, node in self.nodes.nodes.items():
            node.taken, node.refuses_until = 0 if scarce else node.taken, 0
            self._return(node, commands.ReturnNode(name, rebooted=False))
        start = self.now
        while (
            self.now < start + MOST_SECONDS
            and self.now - max(start, self._last_move(), self._next_try()) < QUIET_SECONDS
        ):
            self._second()
        self.history.end = self.now
        self.history.works, self.history.fails = self._of(WORKS), self._of(FAILS)

    def _of(self, behaviours: frozenset[Behaviour]) -> frozenset[str]:
        """The kept revisions that behave so."""
        kept = self.api.kind("ControllerRevision")
        found = (each for each in kept if behaviour(each["data"]["template"]) in behaviours)
        return frozenset(each["metadata"]["labels"][REVISION_LABEL] for each in found)

    def _pass(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second()

    def _second(self) -> None:
        """Everybody's turn, once."""
        self.now += 1
        self._acting = self.history.writes
        lives = self.operator.turn(self.now)
        self._acting = self.history.others
        if not lives:
            self.operator = self._elected()
        self._wait()
        controllers.turn(self.api, self.quota, self.now)
        self.nodes.turn(self.now)
        self._record()

    def _wait(self) -> None:
        """Put on record that the operator does nothing until a set time: it failed to write, or is yet to lead."""
        waits, until = self.history.waits, float(self.operator.not_before)
        if until > self.now and (not waits or waits[-1][1] != until):
            waits.append((float(self.now), until))

    def _elected(self) -> Shell:
        """A fresh process, which has waited for the lease."""
        key = Key("models", NAME)
        return Shell(self.api, self.nodes, key, DEFAULTS, self.faults, self.now + ELECTION_SECONDS)

    def _change(self, patch: Object) -> None:
        self._replace(merged(self.resource, patch))

    def _replace(self, fresh: Object) -> None:
        live = self.resource
        self.api.put(fresh, generation=live["metadata"]["generation"] + (fresh["spec"] != live["spec"]))

    def _forgive(self, revision: str) -> None:
        live = self.api.objects["ControllerRevision", f"{NAME}-{revision}"]
        annotations = {key: text for key, text in live["metadata"]["annotations"].items() if key != FAILURE_ANNOTATION}
        self.api.put(live, annotations=annotations)

    def _kill(self, pod: Object) -> None:
        self._taken(pod["metadata"]["uid"])
        delete_pod(self.api, pod, self.now)

    def _end(self, uid: str) -> None:
        container = self.nodes.containers.get(uid)
        if container and container.ended is None and self.nodes.reachable(container):
            self._taken(uid)
            self.nodes.end(container, Exit("Error", 1), self.now)

    def _fail(self, pod: Object) -> None:
        container = self.nodes.containers.get(pod["metadata"]["uid"])
        if container and self.nodes.reachable(container):
            self._taken(container.pod)
            self.nodes.fail(pod, container, self.now)

    def _load(self, command: commands.Load) -> None:
        container = self.nodes.containers.get(self.api.objects["Pod", command.pod]["metadata"]["uid"])
        if container:
            container.instance.load = command.requests

    def _lose(self, node: Node, name: str) -> None:
        if node.up:
            node.up, node.lost_at = False, self.now
            self._taken(*self._pods_on(name))

    def _return(self, node: Node, command: commands.ReturnNode) -> None:
        if node.up:
            return
        node.up = True
        self._taken(*self._pods_on(command.node))
        for uid in self._pods_on(command.node) if command.rebooted else ():
            self._end(uid)

    def _taken(self, *pods: str) -> None:
        self.history.taken += [(self.now, uid) for uid in pods]

    def _pods_on(self, node: str) -> list[str]:
        return [uid for uid, each in self.nodes.containers.items() if each.node == node]

    def _delete(self, command: commands.DeleteChild) -> None:
        gone = self.api.objects[command.kind, command.name]
        mine = [pod for pod in self.api.kind("Pod") if owner(pod) == gone["metadata"]["uid"]]
        self._taken(*(pod["metadata"]["uid"] for pod in mine))
        self.api.remove(command.kind, command.name)

    def _blind(self, command: commands.BlindWatch) -> None:
        self.operator.blind[command.kind] = self.now + command.seconds
        self.history.blind.append((self.now, self.now + command.seconds))

    def _last_move(self) -> float:
        return max([self.history.moments[-1].at, *self.history.writes[-1:], *self.history.others[-1:]])

    def _next_try(self) -> float:
        """When the last back-off that the status tells of ends: until then nothing has to move."""
        rows = self.resource.get("status", {}).get("revisions", ())
        ends = (datetime.fromisoformat(row["backOff"]["until"]) for row in rows if "backOff" in row)
        return max(((end - START).total_seconds() for end in ends), default=0)

    def _changed(self) -> None:
        if not self._acting or self._acting[-1] != self.now:
            self._acting.append(self.now)
        self._record()

    def _record(self) -> None:
        """The world as it is, where it is not as it was."""
        containers = self.nodes.containers.items()
        runtimes = {uid: Runtime(each.running, each.serving, self.nodes.reachable(each)) for uid, each in containers}
        heard = {uid: self.nodes.heard_at(each, self.now) for uid, each in containers}
        hot = {each.instance.name for uid, each in containers if each.ended is None and each.instance.hot(heard[uid])}
        last = self.history.moments[-1] if self.history.moments else None
        if last and self.api.version == self._recorded and (runtimes, hot) == (last.runtimes, last.hot):
            return
        self._recorded = self.api.version
        warm = {each.instance.name for _, each in containers if each.serving and each.instance.warm}
        objects = [each for (kind, _), each in self.api.objects.items() if kind != "GaudiInference"]
        taking = {pod["metadata"]["uid"] for pod in objects if pod["kind"] == "Pod" and _takes_traffic(pod)}
        self.history.moments.append(moment(self.now, self.resource, objects, taking, runtimes, warm, hot))


def _takes_traffic(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True" and not ending(pod)
