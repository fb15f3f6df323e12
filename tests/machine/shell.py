"""A process of the operator around the pure core: what its shell does, without a network and on an injected clock.

The store and the decision are the operator's own; watches, reports and writes are played, with their delays and
faults. tests/cluster holds the real shell to the same laws.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from gaudi_operator.core.actions import Action, Apply, Decision, Delete, SetDeletionCost, SetGate
from gaudi_operator.core.decide import decide
from gaudi_operator.core.names import DELETION_COST_ANNOTATION, GATE, REMOVED_FIRST
from gaudi_operator.core.observed import InstallationDefaults, Observed, PodReport
from gaudi_operator.shell.kinds import WATCHED
from gaudi_operator.shell.store import Key, Store
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.machine.api import Api, Object, ending, with_condition
from tests.machine.clock import moment, stamp
from tests.machine.nodes import Container, Nodes

SETTLED = (Phase.SERVING, Phase.DRAINING, Phase.FAILED)
LONG_POLL_SECONDS = 10


class Fault(StrEnum):
    """What may happen to a write."""

    NONE = "none"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    KILLED = "killed"


class _Failed(Exception):
    """A write got no answer: the pass is given up and tried again after a while."""


class _Killed(Exception):
    """The process ended."""


@dataclass
class Shell:
    """One process, which has listed everything. `blind` says by kind until when its watch is stuck, in seconds."""

    api: Api
    nodes: Nodes
    key: Key
    defaults: InstallationDefaults
    faults: deque[Fault]
    started: int
    blind: dict[str, int] = field(default_factory=dict)
    passes: int = 0

    def __post_init__(self) -> None:
        """List all kinds."""
        self.store, self.told = Store(), {kind.kind: len(self.api.log[kind.kind]) for kind in WATCHED}
        for each in self.api.objects.values():
            self.store.put(each)
        self.reports: dict[str, PodReport] = {}
        self._known: dict[tuple[str, str], WarmupReport] = {}
        self.status_written: int | None = None
        self.generation, self.ask = 0, False
        self.failures, self.due, self.not_before = 0, float(self.started), self.started

    def turn(self, now: int) -> bool:
        """One second; False when the process was killed in it."""
        self._watch(now)
        if self.store.resource(self.key) is None:
            return True
        self._ask(now)
        if now < max(self.due, self.not_before):
            return True
        try:
            self._pass(now)
        except _Killed:
            return False
        return True

    def _watch(self, now: int) -> None:
        for kind in self.told:
            if now < self.blind.get(kind, 0):
                continue
            for gone, manifest in self.api.log[kind][self.told[kind] :]:
                if self.store.remove(manifest) if gone else self.store.put(manifest):
                    self.due = now
            self.told[kind] = len(self.api.log[kind])

    def _ask(self, now: int) -> None:
        """The long-polls of reports: one per running container that the store shows."""
        shown = self._targets()
        for uid in [each for each in self.reports if each not in shown]:
            del self.reports[uid]
        for uid, name in shown.items():
            container = self.nodes.containers.get(uid)
            if name is None or container is None or container.ended or not self.nodes.reachable(container):
                continue
            self._hear(uid, name, container, now)

    def _targets(self) -> dict[str, str | None]:
        """Pods by UID with the name of the container that can be asked, None where none can."""
        observed = self.store.observe(self.key, {}, moment(0))
        return {pod["metadata"]["uid"]: _running(pod) for pod in observed.pods} if observed else {}

    def _hear(self, uid: str, name: str, container: Container, now: int) -> None:
        report = container.instance.report(now)
        known = self._known.get((uid, name))
        if known and known.instance != report.instance:
            word = PodReport(name, moment(now), ignored="another instance answers than before")
            self._take(uid, word, self.reports.get(uid) is None or self.reports[uid].ignored is None, now)
            return
        last = self.reports.get(uid)
        fresh = known is None or known.sequence != report.sequence
        if last and not fresh and (moment(now) - last.received).total_seconds() < LONG_POLL_SECONDS:
            return
        self._known[uid, name] = report
        self._take(uid, PodReport(name, moment(now), report=report), fresh, now)

    def _take(self, uid: str, word: PodReport, news: bool, now: int) -> None:
        if news or word.report:
            self.reports[uid] = word
        if news:
            self.due = now

    def _pass(self, now: int) -> None:
        self.passes += 1
        self._renew(now)
        written = None if self.status_written is None else moment(self.status_written)
        observed = self.store.observe(self.key, self.reports, moment(now), written)
        assert observed is not None
        decision = decide(observed, self.defaults)
        try:
            if self._act(decision, now):
                self._show(observed, decision, now)
        except _Failed:
            self.failures += 1
            self.due = self.not_before = now + min(10, 2**self.failures)
            return
        self.failures = 0
        self.due = float("inf") if decision.look_again_seconds is None else now + decision.look_again_seconds
        self.ask = decision.ask_first

    def _renew(self, now: int) -> None:
        """A new spec may lower the replicas, and a warm-up may stand still: then pods are asked what they do now."""
        resource = self.store.resource(self.key)
        generation = resource["metadata"]["generation"] if resource else 0
        for uid, word in self.reports.items() if generation != self.generation or self.ask else ():
            container = self.nodes.containers.get(uid)
            if (
                word.report
                and container
                and container.running == word.report.instance
                and self.nodes.reachable(container)
            ):
                self.reports[uid] = replace(word, received=moment(now), report=container.instance.report(now))
        self.generation, self.ask = generation, False

    def _act(self, decision: Decision, now: int) -> bool:
        """Carry out the actions; False when the resource was found to be gone."""
        creates = [each for each in decision.actions if isinstance(each, Apply) and not self._knows(each)]
        if creates and self.api.get("GaudiInference", self.key.name) is None:
            return False
        for action in decision.actions:
            self._write(partial(self._perform, action, now))
        return True

    def _knows(self, action: Apply) -> bool:
        kind, name = action.manifest["kind"], action.manifest["metadata"]["name"]
        return any(k.kind == kind and self.store.get(self.key, k, name) for k in WATCHED)

    def _write(self, send: Callable[[], Object | None]) -> None:
        fault = self.faults.popleft() if self.faults else None
        if fault is Fault.KILLED:
            raise _Killed
        if fault is Fault.REFUSED:
            raise _Failed
        answer = send()
        if fault is Fault.UNANSWERED:
            raise _Failed
        if answer is not None:
            self.store.put(answer)

    def _perform(self, action: Action, now: int) -> Object | None:
        match action:
            case Apply():
                return self.api.apply(action.manifest)
            case Delete():
                return self._delete(action)
            case SetGate():
                return self._set_gate(action, now)
            case SetDeletionCost():
                return self._set_cost(action)

    def _delete(self, action: Delete) -> None:
        live = self.api.get(action.kind, action.name)
        if live and live["metadata"]["uid"] == action.uid:
            self.api.remove(action.kind, action.name)
            self.store.remove(live)

    def _set_gate(self, action: SetGate, now: int) -> Object | None:
        pod = self.api.get("Pod", action.pod)
        if pod is None or pod["metadata"]["uid"] != action.uid:
            return None
        known = (pod.get("status") or {}).get("conditions", [])
        said = (action.open, stamp(now), action.reason, action.message)
        return self.api.status(pod, conditions=with_condition(known, GATE, *said))

    def _set_cost(self, action: SetDeletionCost) -> Object | None:
        pod = self.api.get("Pod", action.pod)
        if pod is None or pod["metadata"]["uid"] != action.uid:
            raise _Failed
        annotations = {k: v for k, v in pod["metadata"]["annotations"].items() if k != DELETION_COST_ANNOTATION}
        cost = {DELETION_COST_ANNOTATION: str(REMOVED_FIRST)} if action.removed_first else {}
        return self.api.put(pod, annotations={**annotations, **cost})

    def _show(self, observed: Observed, decision: Decision, now: int) -> None:
        status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        shown = self.store.resource(self.key) or observed.resource
        if shown.get("status") != status:
            self._write(partial(self._write_status, status))
            self.status_written = now

    def _write_status(self, status: Object) -> Object | None:
        live = self.api.get("GaudiInference", self.key.name)
        return self.api.put({**live, "status": status}) if live else None


def _running(pod: Object) -> str | None:
    for each in (pod.get("status") or {}).get("containerStatuses", ()):
        if "running" in each["state"] and not ending(pod):
            return str(each["containerID"])
    return None
