"""The commands of the state machine, executed on a real API server, real operators and the kubelet of the tests."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self

import httpx

from gaudi_operator.cli.kubectl.undo import undo_patch
from gaudi_operator.core.names import FAILURE_ANNOTATION, NAME_LABEL, RESTARTED_AT_ANNOTATION, REVISION_LABEL
from gaudi_runtime.contract.report import RequestCountsReport
from tests.cluster.recorder import Recorder
from tests.cluster.simulated import SimulatedRuntime
from tests.laws.history import History, Runtime
from tests.support.api_proxy import ApiProxy
from tests.support.background import Background
from tests.support.builders import gaudi_inference, merged
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.world import actions, commands
from tests.world.api import counts
from tests.world.runtime import FAILS, WORKS, Behaviour, behaviour

NAME = "tiny"
LAG_SECONDS = 6.0
KUBELET_SECONDS = 3.0
QUIET_SECONDS = 12.0
MOST_SECONDS = 180.0
CARDS = 8
SCALE = 0.1
"""Real seconds per second of a command: pods warm up in half a second."""
STORY_STEPS = 10
"""Steps per story. After them everything is lifted that may block a rollout: no cards, no replicas, a pause."""
HELD_SECONDS, CUT_SECONDS = 4.0, 1.0
CRASHES = 3
ELECTION_SECONDS = 5.0

ELSEWHERE = (
    actions.lose_node,
    actions.return_node,
    actions.fail_pod,
    actions.refuse_pods,
    actions.limit_pods,
    actions.admit_pods,
)
"""Actions that only the world in memory supports: this kubelet has one node, quotas are retried after minutes, and
scheduling gates need an admission webhook.
"""
RARE = (
    actions.kill_operator,
    actions.blind_watch,
    actions.break_writes,
    actions.cut_off,
    actions.delete_child,
    actions.pause,
    actions.refuse,
)
"""Actions that may block a rollout for a while."""
_COMMON = tuple(action for action in actions.ACTIONS if action not in (*ELSEWHERE, *RARE))
ACTIONS = (*RARE, *2 * _COMMON, *4 * (actions.upgrade,), *6 * (actions.pass_time,))


class RealWorld:
    """A resource, two operators behind a proxy, and the record of the run.

    Use an instance as an async context manager.
    """

    def __init__(
        self,
        api: KubeApi,
        kubelet: Kubelet,
        proxy: ApiProxy,
        operators: Sequence[OperatorProcess],
        choices: random.Random,
    ) -> None:
        """Create the world without starting it. The kubeconfig of the operators points to the proxy."""
        self.api, self.kubelet, self.proxy, self.choices = api, kubelet, proxy, choices
        self.operators = list(operators)
        self.recorder = Recorder(api, NAME)
        self.history = History(lag=LAG_SECONDS, kubelet=KUBELET_SECONDS, rest=QUIET_SECONDS)
        self.cards, self.counts = CARDS, {"steps": 0, "kills": 0, "restarts of operators": 0}
        self._crashes: dict[str, int] = {}
        self._background = Background()
        kubelet.make_runtime = self._runtime
        kubelet.schedulable = lambda _: len(kubelet.runtimes) < self.cards
        kubelet.seconds_without_node = 60

    async def __aenter__(self) -> Self:
        """Start the operators and create the resource."""
        await self.recorder.__aenter__()
        for operator in self.operators:
            await operator.start()
            self._background.spawn(self._restart_when_ended(operator))
        self._background.spawn(self._reschedule())
        rollout = {"surgeTimeoutSeconds": 30, "obstacleDeadlineSeconds": 60}
        await self.api.create(gaudi_inference(NAME, replicas=2, rollout=rollout))
        await until(self._known, "the resource to be watched")
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Stop the background tasks, the operators and the recorder. Raise the first error of a background task."""
        await self._background.stop()
        for operator in self.operators:
            if operator.running:
                await operator.terminate()
        await self.recorder.__aexit__(kind, error, trace)
        if error is None:
            self._background.check()

    @property
    def resource(self) -> Object:
        """The latest observed version of the resource."""
        return self.recorder.objects["GaudiInference", NAME]

    @property
    def pods(self) -> list[str]:
        """The names of the pods that count as replicas."""
        return sorted(name for (kind, name), each in self.recorder.objects.items() if kind == "Pod" and counts(each))

    @property
    def children(self) -> list[tuple[str, str]]:
        """The kind and the name of each object that the operator created."""
        ours = (key for key, each in self.recorder.objects.items() if NAME_LABEL in each["metadata"].get("labels", {}))
        return sorted(key for key in ours if key[0] != "Pod")

    @property
    def revisions(self) -> list[str]:
        """The names of the kept revisions."""
        return [each["metadata"]["labels"][REVISION_LABEL] for each in self._kept()]

    def _kept(self) -> list[Object]:
        return [each for (kind, _), each in sorted(self.recorder.objects.items()) if kind == "ControllerRevision"]

    async def step(self) -> commands.Command | None:
        """Choose and execute a command, and let some time pass."""
        if self.counts["steps"] % STORY_STEPS == 0:
            await until(self._has_leader, "an operator to lead", seconds=MOST_SECONDS)
            await self._lift_blocks()
        self.counts["steps"] += 1
        command = self.choices.choice(ACTIONS)(self, self.choices.choice)
        if command is not None:
            await self.do(command)
        await asyncio.sleep(self.choices.choice((0.0, 0.05, 0.2, 0.6, 1.0)))
        return command

    async def do(self, command: commands.Command) -> None:
        """Execute a command."""
        match command:
            case commands.PassTime():
                await asyncio.sleep(command.seconds * SCALE)
            case commands.ChangeSpec():
                await self._merge("GaudiInference", NAME, {"spec": _quick(command.patch)})
            case commands.Restart():
                annotated = {"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: command.value}}}
                await self._merge("GaudiInference", NAME, annotated)
            case commands.Undo():
                await self._undo(command.revision)
            case commands.Forgive():
                forgiven = {"metadata": {"annotations": {FAILURE_ANNOTATION: None}}}
                await self._merge("ControllerRevision", f"{NAME}-{command.revision}", forgiven)
            case commands.KillPod():
                self._record_taken(command.pod)
                await self.api.delete("Pod", command.pod)
            case commands.EndContainer():
                await self._end(command.pod)
            case commands.Load():
                if runtime := self.kubelet.runtimes.get(command.pod):
                    runtime.update(requests=RequestCountsReport(running=command.requests))  # type: ignore[attr-defined]
            case commands.TakeCards():
                self.cards = CARDS - 2 * command.cards
            case commands.DeleteChild():
                await self._delete(command)
            case commands.BreakWrites():
                self._disturb(self.proxy.refuse, CUT_SECONDS)
            case commands.CutOff():
                self._disturb(self.proxy.refuse, command.seconds * SCALE)
            case commands.BlindWatch():
                self._disturb(self.proxy.hold_answers, HELD_SECONDS)
            case commands.KillOperator():
                await self._kill()

    async def settle(self) -> None:
        """Stop all faults, wait until nothing changes, and complete the record."""
        self.cards = CARDS
        last = self.recorder.now()

        async def still() -> bool:
            nonlocal last
            # Restart the quiet time while there is no leader, because nothing is written without a leader. On a busy
            # machine, an operator may need a long time to become the leader.
            if not await self._has_leader():
                last = self.recorder.now()
            return self.recorder.now() - max(last, self.recorder.last_event()) > QUIET_SECONDS

        with contextlib.suppress(AssertionError):  # the law of the idle operator reports it better
            await until(still, "the world to be idle", seconds=MOST_SECONDS, every=0.5)
        self.recorder.fill(self.history)
        self.history.writes = [self.recorder.last_event()]
        self.history.works, self.history.fails = self._revisions_that(WORKS), self._revisions_that(FAILS)

    def _revisions_that(self, behaviours: frozenset[Behaviour]) -> frozenset[str]:
        found = (each for each in self._kept() if behaviour(each["data"]["template"]) in behaviours)
        return frozenset(each["metadata"]["labels"][REVISION_LABEL] for each in found)

    async def _lift_blocks(self) -> None:
        self.cards = CARDS
        engine = {**actions.runs(self.choices.choice(actions.GOOD))["engine"], "settings": None}
        rollout = {"paused": False}
        await self._merge("GaudiInference", NAME, {"spec": {"replicas": 2, "engine": engine, "rollout": rollout}})

    async def _known(self) -> bool:
        return ("GaudiInference", NAME) in self.recorder.objects

    async def _merge(self, kind: str, name: str, patch: Object) -> None:
        with _ignore_missing():
            await self.api.merge(kind, name, patch)

    async def _undo(self, revision: str) -> None:
        """Change the spec back to the spec of the revision, as `kubectl gaudi rollout undo` does."""
        kept = self.recorder.objects["ControllerRevision", f"{NAME}-{revision}"]
        resource = await self.api.get("GaudiInference", NAME)
        assert resource
        await self.api.change("GaudiInference", NAME, undo_patch(resource, kept["data"]["inputs"]))

    async def _end(self, pod: str) -> None:
        """End the container of the pod if the container runs."""
        self._record_taken(pod)
        with contextlib.suppress(KeyError), _ignore_missing():
            await self.kubelet.restart(pod)

    async def _delete(self, command: commands.DeleteChild) -> None:
        uid = self.recorder.objects[command.kind, command.name]["metadata"]["uid"]
        for (kind, name), each in self.recorder.objects.items():
            if kind == "Pod" and any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences", ())):
                self._record_taken(name)
        await self.api.delete(command.kind, command.name)

    def _disturb(self, how: Callable[[float], Coroutine[Any, Any, None]], seconds: float) -> None:
        """Run a disturbance in the background. A leader that cannot renew its Lease exits and is restarted."""
        self._blind(seconds)
        self._background.spawn(how(seconds))

    async def _kill(self) -> None:
        """Kill the leader, or any operator if there is no leader."""
        running = [each for each in self.operators if each.running]
        leading = [each for each in running if await self._leads(each)]
        if running:
            self.counts["kills"] += 1
            self._blind(0.0)
            await (leading or running)[0].kill()

    async def _has_leader(self) -> bool:
        """Return whether any operator is the leader."""
        return any([await self._leads(each) for each in self.operators if each.running])

    async def _leads(self, operator: OperatorProcess) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return await operator.value("gaudi_operator_leader") == 1
        return False

    async def _restart_when_ended(self, operator: OperatorProcess) -> None:
        """Restart the operator each time its process ends, as a kubelet does."""
        while True:
            await operator.wait(1e9)
            self.counts["restarts of operators"] += 1
            with contextlib.suppress(AssertionError):  # it was killed again while it started
                await operator.start()

    async def _reschedule(self) -> None:
        """Schedule pending pods when cards become free."""
        while True:
            await asyncio.sleep(0.2)
            await self.kubelet.reschedule()

    def _blind(self, seconds: float) -> None:
        self.history.blind.append((self.recorder.now(), self.recorder.now() + seconds + ELECTION_SECONDS))

    def _record_taken(self, pod: str) -> None:
        manifest = self.recorder.objects.get(("Pod", pod))
        if manifest:
            self.history.taken.append((self.recorder.now(), manifest["metadata"]["uid"]))

    async def _runtime(self, address: str, pod: Object) -> SimulatedRuntime:
        return SimulatedRuntime(address, pod, self._record_runtimes, self._end_container)

    def _record_runtimes(self) -> None:
        """Record the runtimes that run now."""
        running = {name: each for name, each in self.kubelet.runtimes.items() if isinstance(each, SimulatedRuntime)}
        runtimes = {name: Runtime(each.report.instance, each.serving) for name, each in running.items()}
        warm = frozenset(each.report.instance for each in running.values() if each.is_warm)
        hot = frozenset(each.report.instance for each in running.values() if each.report.recent_recompiles)
        self.recorder.record(runtimes, warm, hot)

    def _end_container(self, pod: str) -> None:
        """Restart the container of a pod whose runtime has ended by itself.

        After a few restarts, the container stays down, so that the test does not wait for the tenth restart.
        """
        self._crashes[pod] = self._crashes.get(pod, 0) + 1
        if self._crashes[pod] <= CRASHES:
            self._background.spawn(self._end(pod))


def _quick(patch: Mapping[str, Any]) -> Object:
    """Return the patch with any canary observation shortened to two seconds."""
    canary = patch.get("rollout", {}).get("canary")
    return merged(patch, {"rollout": {"canary": {"observeSeconds": 2}}} if canary and canary["observeSeconds"] else {})


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    """Ignore errors for objects that no longer exist."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        if error.response.status_code != httpx.codes.NOT_FOUND:
            raise
