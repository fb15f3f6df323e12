"""The simulation in memory: an API server, controllers, nodes and two replicas of the operator, with a full record."""

from datetime import datetime
from itertools import count
from typing import Self

from gaudi_operator.cli.kubectl.undo import undo_patch
from gaudi_operator.core.names import DESIRED_ANNOTATION, FAILURE_ANNOTATION, RESTARTED_AT_ANNOTATION, REVISION_LABEL
from gaudi_operator.settings import HostPathSetting, Settings
from tests.laws.history import History, Runtime
from tests.laws.reading import moment
from tests.support.builders import gaudi_inference, merged, patched
from tests.world import commands, controllers
from tests.world.actions import NODES
from tests.world.api import Api, Object, condition, counts, ending, owner
from tests.world.api_server import ApiServer
from tests.world.clock import START
from tests.world.nodes import Node, Nodes, delete_pod
from tests.world.replica import Outside, Replica
from tests.world.runtime import FAILS, WORKS, Behaviour, Exit, behaviour

LAG_SECONDS = 4.0
KUBELET_SECONDS = 5.0
QUIET_SECONDS = 90
MOST_SECONDS = 4000
NAME, NAMESPACE = "tiny", "models"
SETTINGS = Settings(
    runtime_image="runtime:1",
    hpu_image="runtime-hpu:1",
    allow_host_path=(HostPathSetting(prefix="/"),),
    allow_simulation=True,
    lease_duration_seconds=6,
    renew_deadline_seconds=4,
    retry_period_seconds=2,
    report_wait_seconds=10,
)
"""Settings with short Lease times. A leader is replaced within seconds, so that stories have more events."""


class World:
    """One resource and its environment, used as a context manager. The laws check the record `history`."""

    def __init__(self, **spec: object) -> None:
        """Create the resource, and start two replicas of the operator."""
        self.now, self.api = 0, Api()
        self.quota: int | None = None
        self.history = History(lag=LAG_SECONDS, kubelet=KUBELET_SECONDS)
        self.nodes = Nodes(self.api, {name: Node(cards=4) for name in NODES}, self._record_taken)
        self.api.put(gaudi_inference(NAME, NAMESPACE, **spec), generation=1)
        leases, events = Api(), Api(changed=lambda: self.history.writes.append(self._time))
        apis = {(NAMESPACE, ""): self.api, (NAMESPACE, "Event"): events, (SETTINGS.namespace, "Lease"): leases}
        server = ApiServer(apis, lambda: self._time)
        self.outside = Outside(self.api, leases, self.nodes, server, trespasses=self.history.trespasses)
        self.defects: list[str] = self.outside.loop.defects
        self._names = (f"operator-{number}" for number in count(1))
        self.replicas = [self._start_replica(), self._start_replica()]
        self._acting: list[float] = self.history.others
        self.api.changed = self._changed
        self._record()

    def __enter__(self) -> Self:
        """Return the world, which is already running."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the operator."""
        for replica in self.replicas:
            self._collect_defects(replica)
        self.outside.loop.run_until(self.now)
        self.outside.loop.close()

    @property
    def _time(self) -> float:
        return self.outside.loop.time()

    @property
    def resource(self) -> Object:
        """The current resource."""
        return self.api.objects["GaudiInference", NAME]

    @property
    def pods(self) -> list[str]:
        """The names of the pods that count as replicas."""
        return [each["metadata"]["name"] for each in self.api.kind("Pod") if counts(each)]

    @property
    def children(self) -> list[tuple[str, str]]:
        """The kind and the name of each object that the operator created."""
        return [name for name in sorted(self.api.objects) if name[0] not in ("Pod", "GaudiInference")]

    @property
    def revisions(self) -> list[str]:
        """The names of the kept revisions."""
        return [each["metadata"]["labels"][REVISION_LABEL] for each in self.api.kind("ControllerRevision")]

    def do(self, command: commands.Command) -> None:
        """Execute a command."""
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
            case commands.AdmitPods():
                self.nodes.admitted = command.pods
            case commands.DeleteChild():
                self._delete(command)
            case commands.BreakWrites():
                self.outside.faults.extend(command.faults)
            case commands.BlindWatch():
                self._blind(command)
            case commands.CutOff():
                self._cut_off(command)
            case commands.KillOperator():
                for replica in self.replicas:
                    if replica.is_leader:
                        replica.kill()
        self._record()

    def settle(self) -> None:
        """Stop all faults, repair their damage, and let time pass until nothing has changed for a long time.

        If all replicas have room, cards and quota remain scarce, because the rollout must end without additional room.
        """
        self.outside.faults.clear()
        self.outside.blind.clear()
        for replica in self.replicas:
            replica.cut_until = 0.0
        desired = self.resource["spec"].get("replicas", 1)
        if self.quota is not None and self.quota < desired:
            self.quota = None
        if self.nodes.admitted is not None and self.nodes.admitted < desired:
            self.nodes.admitted = None
        scarce = sum(node.cards - node.taken for node in self.nodes.nodes.values()) < desired
        for name, node in self.nodes.nodes.items():
            node.taken, node.refuses_until = 0 if scarce else node.taken, 0
            self._return(node, commands.ReturnNode(name, rebooted=False))
        start = self.now
        while self.now < start + MOST_SECONDS and (
            self.now - max(start, self._last_move(), self._next_try()) < QUIET_SECONDS or self._backs_off_unlisted()
        ):
            self._second()
        self.history.end = self.now
        self.history.works, self.history.fails = self._revisions_that(WORKS), self._revisions_that(FAILS)

    def _revisions_that(self, behaviours: frozenset[Behaviour]) -> frozenset[str]:
        """Return the kept revisions with one of these behaviours."""
        kept = self.api.kind("ControllerRevision")
        found = (each for each in kept if behaviour(each["data"]["template"]) in behaviours)
        return frozenset(each["metadata"]["labels"][REVISION_LABEL] for each in found)

    def _pass(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second()

    def _second(self) -> None:
        """Advance every component by one second."""
        self.now += 1
        self._acting = self.history.writes
        self.outside.loop.run_until(self.now)
        self._acting = self.history.others
        self._record_wait()
        for replica in self.replicas:
            if not replica.is_running:
                self._collect_defects(replica)
        self.replicas = [each if each.is_running else self._start_replica() for each in self.replicas]
        controllers.advance(self.api, self.quota, self.now)
        self.nodes.advance(self.now)
        self._record()

    def _record_wait(self) -> None:
        """Record a second in which no replica was operational: its last write failed, or there was no leader."""
        waits = self.history.waits
        if any(replica.is_operational for replica in self.replicas):
            return
        began = waits.pop()[0] if waits and waits[-1][1] == self.now - 1 else self.now - 1.0
        waits.append((began, float(self.now)))

    def _start_replica(self) -> Replica:
        """Start a new replica, and return it."""
        return Replica(self.outside, SETTINGS.model_copy(update={"identity": next(self._names)}))

    def _collect_defects(self, replica: Replica) -> None:
        replica.kill()
        self.defects += ["a reconcile ended by a defect"] * int(replica.defects)

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
        self._record_taken(pod["metadata"]["uid"])
        delete_pod(self.api, pod, self.now)

    def _end(self, uid: str) -> None:
        container = self.nodes.containers.get(uid)
        if container and container.ended is None and self.nodes.reachable(container):
            self._record_taken(uid)
            self.nodes.end(container, Exit("Error", 1), self.now)

    def _fail(self, pod: Object) -> None:
        container = self.nodes.containers.get(pod["metadata"]["uid"])
        if container and self.nodes.reachable(container):
            self._record_taken(container.pod)
            self.nodes.fail(pod, container, self.now)

    def _load(self, command: commands.Load) -> None:
        container = self.nodes.containers.get(self.api.objects["Pod", command.pod]["metadata"]["uid"])
        if container:
            container.instance.load = command.requests

    def _lose(self, node: Node, name: str) -> None:
        if node.up:
            node.up, node.lost_at = False, self.now
            self._record_taken(*self._pods_on(name))

    def _return(self, node: Node, command: commands.ReturnNode) -> None:
        if node.up:
            return
        node.up = True
        self._record_taken(*self._pods_on(command.node))
        for uid in self._pods_on(command.node) if command.rebooted else ():
            self._end(uid)

    def _record_taken(self, *pods: str) -> None:
        self.history.taken += [(self.now, uid) for uid in pods]

    def _pods_on(self, node: str) -> list[str]:
        return [uid for uid, each in self.nodes.containers.items() if each.node == node]

    def _delete(self, command: commands.DeleteChild) -> None:
        gone = self.api.objects[command.kind, command.name]
        mine = [pod for pod in self.api.kind("Pod") if owner(pod) == gone["metadata"]["uid"]]
        self._record_taken(*(pod["metadata"]["uid"] for pod in mine))
        self.api.remove(command.kind, command.name)

    def _blind(self, command: commands.BlindWatch) -> None:
        self.outside.blind[command.kind] = self.now + command.seconds
        self.history.blind.append((self.now, self.now + command.seconds))

    def _cut_off(self, command: commands.CutOff) -> None:
        self.history.blind.append((self.now, self.now + command.seconds))
        for replica in self.replicas:
            if replica.is_leader:
                replica.cut_until, replica.cut_lease_only = float(self.now + command.seconds), command.lease_only

    def _last_move(self) -> float:
        return max([self.history.moments[-1].at, *self.history.writes[-1:], *self.history.others[-1:]])

    def _next_try(self) -> float:
        """Return the end of the last back-off in the status. No change is required before this time."""
        rows = self.resource.get("status", {}).get("revisions", ())
        ends = (datetime.fromisoformat(row["backOff"]["until"]) for row in rows if "backOff" in row)
        return max(((end - START).total_seconds() for end in ends), default=0)

    def _backs_off_unlisted(self) -> bool:
        """Return True if a revision will get pods but has no status row, because its ControllerRevision is deleted."""
        listed = {row["name"] for row in self.resource.get("status", {}).get("revisions", ())}
        held = [each for each in self.api.kind("ReplicaSet") if DESIRED_ANNOTATION in _annotations(each)]
        return any(each["metadata"]["labels"].get(REVISION_LABEL) not in listed for each in held)

    def _changed(self) -> None:
        if not self._acting or self._acting[-1] != self._time:
            self._acting.append(self._time)
        self._record()

    def _record(self) -> None:
        """Record the state of the world if the state has changed."""
        containers = self.nodes.containers.items()
        runtimes = {uid: Runtime(each.running, each.serving, self.nodes.reachable(each)) for uid, each in containers}
        contacts = {uid: self.nodes.last_contact(each, self.now) for uid, each in containers}
        hot = {
            each.instance.name for uid, each in containers if each.ended is None and each.instance.hot(contacts[uid])
        }
        last = self.history.moments[-1] if self.history.moments else None
        if last and self.api.version == self._recorded and (runtimes, hot) == (last.runtimes, last.hot):
            return
        self._recorded = self.api.version
        warm = {each.instance.name for _, each in containers if each.serving and each.instance.warm}
        objects = [each for (kind, _), each in self.api.objects.items() if kind != "GaudiInference"]
        taking = {pod["metadata"]["uid"] for pod in objects if pod["kind"] == "Pod" and _takes_traffic(pod)}
        self.history.moments.append(moment(self._time, self.resource, objects, taking, runtimes, warm, hot))


def _annotations(manifest: Object) -> Object:
    found: Object = manifest["metadata"].get("annotations") or {}
    return found


def _takes_traffic(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True" and not ending(pod)
