"""The loop: observe, decide, write, show. One task per resource, never two reconciles of a resource at once."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Decision, SetGate
from gaudi_operator.core.admission.classes import asks_for_labels
from gaudi_operator.core.answers import AnyQuestion
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.resource import read_status
from gaudi_operator.core.status.status import moves_within
from gaudi_operator.core.texts import named_texts
from gaudi_operator.errors import OperatorError, Stalled, Transient, Waiting
from gaudi_operator.shell.kinds import CLASS, POD, RESOURCE, Kind, kind_of
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.reconciling.first_passes import FirstPasses
from gaudi_operator.shell.reconciling.resource_worker import Beside, ResourceWorker, subject_of
from gaudi_operator.shell.reconciling.slots import Rank, Slots
from gaudi_operator.shell.reports import Reports, target_of
from gaudi_operator.shell.watching.store import CLASSES, Key, Store, gate_of, version_of
from gaudi_operator.shell.writing.apply import Writer, with_failure
from gaudi_operator.shell.writing.events import Publisher

# A restart may open the gates of a thousand pods at once, and other resources want the API server too.
GATES_AT_ONCE = 32
SOON_SECONDS = 0.1
"""In which the cluster's controllers are done with what follows from one write of ours: it is looked at together."""
PODS_SECONDS = 1.0
"""In which what pods become is looked at together, while no upgrade waits for one of them: gates do not wait for that,
and the status shows it less often.
"""
REFUSED_SECONDS = 2.0
"""Between two looks at a resource of which a request was refused, where nothing has changed."""
FEW_PODS = 5
"""Up to so many a decision takes a millisecond, and a thread for it would take as much."""
FEW_GATES = 20
"""The same of a decision on gates alone."""
THREADS = 2
"""With which the loop shares Python, so that gates are decided on meanwhile: a long one leaves another to the rest."""
_MOVING = frozenset({"Pending", "WarmingUp", "RollingOut"})
TEXTS_SECONDS = 300.0
"""ConfigMaps of others and labels of namespaces are not watched: an edit is noticed with the next reconcile, and after
so long at most.
"""

log = logging.getLogger(__name__)

Ask = Callable[[Key, AnyQuestion, Callable[[Key], None]], None]
"""Has a question of a resource answered; the last one is called with its key then."""


@dataclass(frozen=True)
class Effects:
    """Everything that a reconcile may touch. `ask` is None where decisions answer their own questions about plans."""

    store: Store
    reports: Reports
    writer: Writer
    events: Publisher
    metrics: Metrics
    clock: Clock = SYSTEM
    ask: Ask | None = None


class Reconciler:
    """Runs reconciles for the resources that are woken, a few at the same time."""

    def __init__(
        self,
        effects: Effects,
        decide: Callable[[Observed], Decision],
        at_once: int,
        decide_gates: Callable[[Observed], Decision],
    ) -> None:
        """`decide` is the pure decision and `decide_gates` the part of it about gates; `at_once` bounds concurrent
        reconciles.
        """
        self._do = effects
        self._decide = decide
        self._decide_gates = decide_gates
        self._slots = Slots(at_once)
        self._gates = asyncio.Semaphore(GATES_AT_ONCE)
        self._threads = ThreadPoolExecutor(THREADS, "decisions")
        self._workers: dict[Key, ResourceWorker] = {}
        self._stopped = False
        self._first = FirstPasses(effects.clock)

    def seen(self, manifest: Manifest) -> None:
        """A watch has shown an object as it is now."""
        before = self._do.store.find(manifest)
        if key := self._do.store.put(manifest):
            kind, version = kind_of(manifest), version_of(manifest)
            if kind is POD and _runs_anew(before, manifest):
                self._container_has_news(key, gate_of(manifest) == "True", SOON_SECONDS, version)
            elif kind is POD:
                self.wake(key, self._pods_within(key), version)
            else:
                self.wake(key, 0.0 if kind in (RESOURCE, CLASS) else SOON_SECONDS, version)

    def gone(self, manifest: Manifest) -> None:
        """A watch has shown the last of an object."""
        if key := self._do.store.remove(manifest):
            self._do.store.doubt(kind_of(manifest), key)
            self.wake(key, 0.0 if kind_of(manifest) is RESOURCE else SOON_SECONDS)

    def listed(self, kind: Kind, namespace: str | None, objects: Sequence[Mapping[str, Any]], version: int) -> None:
        """All objects of a kind, in one namespace or in all."""
        store = self._do.store
        waited = bool(store.unlisted)
        woken = store.take_list(kind, namespace, objects, version)
        if waited and not store.unlisted:
            self._first.expect(store.served())
        for key in woken:
            self.wake(key)

    def reported(self, key: Key, urgent: bool) -> None:
        """A pod of the resource has news. Figures that merely move are not `urgent`: they are looked at as often as the
        status shows them.
        """
        worker = self._workers.get(key)
        moves = moves_within(worker.pods if worker else 0)
        self._container_has_news(key, urgent, self._pods_within(key) if urgent else moves)

    def _pods_within(self, key: Key) -> float:
        worker = self._workers.get(key)
        return PODS_SECONDS if worker and not worker.upgrades else SOON_SECONDS

    def _container_has_news(self, key: Key, urgent: bool, within: float, version: int | None = None) -> None:
        """Urgent are those that may change a gate: it is looked at now, and `within` seconds the reconcile, which finds
        also what the cluster's controllers make of it.
        """
        self.wake(key, within, version)
        worker = self._workers.get(key)
        if not urgent or worker is None:
            return
        if worker.beside is None:
            worker.rank = Rank.GATES
            self._slots.hurry(key)
            return
        self._judge_gates(key, worker)

    def _judge_gates(self, key: Key, worker: ResourceWorker) -> None:
        """Now, or once more when that is being done."""
        gates = worker.gates
        gates.due = True
        if self._stopped:
            return
        if gates.task is None or gates.task.done():
            gates.task = asyncio.create_task(self._send_due_gates(key, worker), name=f"gates of {key}")

    def why_not_ready(self) -> str | None:
        """How many resources that were there at the start are still to be looked at."""
        return self._first.why_not_done()

    def wake(self, key: Key, within: float = 0.0, version: int | None = None) -> None:
        """Something about the resource changed: look at it `within` seconds. Cheap; many calls before the next
        reconcile are one. `version` is that of the object that has changed, if it is one.
        """
        # Not before every kind was listed: what is not listed yet would be taken for missing.
        if self._do.store.unlisted:
            return
        if key == CLASSES:
            for each in self._do.store.served():
                self.wake(each, within)
            return
        worker = self._workers.get(key)
        if worker is None and not self._stopped and self._do.store.resource(key):
            worker = self._workers[key] = ResourceWorker(clock=self._do.clock)
            worker.task = asyncio.create_task(self._serve(key, worker), name=f"reconcile {key.namespace}/{key.name}")
        if worker:
            worker.look_within(within, version)

    def stop(self) -> None:
        """Stop all work now: no write starts after this."""
        self._stopped = True
        for worker in self._workers.values():
            worker.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, key: Key, worker: ResourceWorker) -> None:
        """One reconcile after the other until the resource is gone."""
        while observed := await self._observe(key, worker):
            with self._do.metrics.queued.track_inprogress():
                await self._slots.acquire(key, min(worker.rank, _rank(observed)))
            worker.rank = Rank.REST
            try:
                seconds, wakeable = await self._guarded_pass(key, observed, worker)
            finally:
                self._slots.release()
            self._first.done(key)
            own = self._do.writer.take_own(key)
            worker.know(own.versions)
            await worker.pause(0.0 if own.told_more and wakeable else seconds, wakeable)
        self._do.reports.follow(key, ())
        self._first.done(key)
        worker.gates.cancel()
        # Nothing is awaited since the last look: a wake-up in between would have been lost.
        del self._workers[key]

    async def _observe(self, key: Key, worker: ResourceWorker) -> Observed | None:
        """The picture now. A new spec may lower the replicas, and a warm-up may stand still: then it matters what pods
        are doing at this moment.
        """
        # Before the look: what changes during it must end the next pause.
        worker.begin()
        resource = self._do.store.resource(key)
        if resource and (worker.is_new(resource["metadata"].get("generation", 0)) or worker.ask):
            await self._do.reports.renew(key)
            resource = self._do.store.resource(key)
        worker.gates.look()
        observed = self._now(key, worker)
        return replace(observed, status_held=worker.held_since) if observed else None

    def _now(self, key: Key, worker: ResourceWorker) -> Observed | None:
        """The picture of this moment, gates that are on their way in it; None when the resource is gone."""
        resource = self._do.store.resource(key)
        written = self._do.writer.status_written_at(resource["metadata"]["uid"]) if resource else None
        found = self._do.store.observe(key, self._do.reports.latest, self._do.clock.now(), written)
        return worker.gates.assumed(found) if found else None

    def _observe_again(self, key: Key, before: Observed, worker: ResourceWorker) -> Observed:
        """With the gates that were sent while the reconcile waited for its turn: they are not sent again."""
        worker.gates.look()
        now = self._now(key, worker)
        if now is None:
            return before
        beside = Beside(before.texts, before.namespace_labels)
        return replace(beside.added_to(now), status_held=before.status_held)

    async def _guarded_pass(self, key: Key, observed: Observed, worker: ResourceWorker) -> tuple[float | None, bool]:
        """One reconcile; returns how long to wait at most after it, and whether news may end the wait earlier."""
        extra = _of(key)
        outcome, wakeable = "done", False
        try:
            with self._do.metrics.seconds.time():
                seconds, wakeable = await self._pass(key, observed, worker), True
            worker.backoff.reset()
        except Waiting as error:
            outcome, seconds = "waiting", error.seconds
            log.info("%s", error, extra=extra)
        except Transient as error:
            outcome, seconds = "transient", max(worker.backoff.next(), error.retry_after or 0.0)
            log.warning("%s", error, extra=extra)
        except OperatorError as error:
            outcome, seconds = "refused", worker.backoff.next()
            log.warning("%s", error, extra=extra)
        except Exception:
            outcome, seconds = "bug", worker.backoff.next()
            log.exception("The reconcile failed by a defect of the operator; it is tried again.", extra=extra)
        if not wakeable:
            worker.beside = None  # no gate shortens this wait either
        self._do.metrics.passes.labels(outcome).inc()
        return seconds, wakeable

    async def _pass(self, key: Key, observed: Observed, worker: ResourceWorker) -> float | None:
        """Observe is done; decide, act, show, publish. Returns the seconds after which to look again."""
        self._do.reports.follow(key, observed.pods)
        named = named_texts(observed.resource)
        if named:
            observed = replace(observed, texts=await self._do.writer.texts(key, named))
        if asks_for_labels(observed):
            observed = replace(observed, namespace_labels=await self._do.writer.namespace_labels(key))
        worker.beside = Beside(observed.texts, observed.namespace_labels)
        async with worker.gates.deciding:
            if worker.gates.sent != worker.gates.seen:
                observed = self._observe_again(key, observed, worker)
            decision = await self._decided(observed)
            gates = worker.gates.send(decision.actions)
        worker.ask, worker.upgrades, worker.pods = decision.ask_first, decision.upgrades, len(observed.pods)
        worker.held_since = (worker.held_since or observed.now) if decision.holds else None
        worker.expect(decision.actions)
        refusal = await self._write_gates(key, gates, worker)
        await self._do.writer.recheck(key, decision.actions)
        refusal = refusal or await self._act(key, decision.actions, worker)
        if not await worker.gates.were_written():
            return SOON_SECONDS
        if decision.question is not None:
            # Gates are written; nobody holds a slot while a plan is worked out, and news go on to be looked at.
            assert self._do.ask  # noqa: S101 - who answers at once leaves no question
            self._do.ask(key, decision.question, self.wake)
            # Of the gates: the reconcile that follows finds them written, and tells of them no more.
            self._tell(self._do.store.resource(key) or observed.resource, decision)
            return decision.look_again_seconds
        if refusal:
            decision = with_failure(decision, read_status(observed.resource), refusal, self._do.clock.now())
        # As it is by now: the status may have been written by another manager during the reconcile.
        resource = self._do.store.resource(key) or observed.resource
        await self._do.writer.show(resource, decision.status)
        self._tell(resource, decision)
        shown = self._do.store.resource(key)
        if shown and _asked(shown) != _asked(observed.resource):
            # The answer to our write has it already, so that the watch's event of it will be no news and wake nobody.
            return 0.0
        again = decision.look_again_seconds
        if refusal and again is not None:
            again = max(again, REFUSED_SECONDS)  # nothing follows at once from what was not done
        waits = (
            again,
            worker.retry_seconds(),
            TEXTS_SECONDS if named or observed.namespace_labels else None,
        )
        return min((each for each in waits if each is not None), default=None)

    async def _decided(self, observed: Observed) -> Decision:
        """In a thread where it takes long, for nothing may block the loop: of a thousand pods that is a second."""
        if _pods(observed) <= FEW_PODS:
            return self._decide(observed)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._decide, observed)

    async def _decided_on_gates(self, observed: Observed) -> Decision:
        """In another thread, for that one may be busy."""
        if _pods(observed) <= FEW_GATES:
            return self._decide_gates(observed)
        return await asyncio.to_thread(self._decide_gates, observed)

    def _tell(self, resource: Manifest, decision: Decision) -> None:
        for event in decision.events:
            self._do.events.publish(resource, event)

    async def _send_due_gates(self, key: Key, worker: ResourceWorker) -> None:
        """Gates that pods wait for, although a reconcile of their resource writes other things, or waits for its turn.
        What fails here, the next reconcile tries again.
        """
        gates = worker.gates
        try:
            while gates.due:
                async with gates.deciding:
                    gates.due = False
                    observed = self._now(key, worker)
                    if observed is None or worker.beside is None:
                        return
                    decision = await self._decided_on_gates(worker.beside.added_to(observed))
                    sent = gates.send(decision.actions)
                if sent:
                    write = self._write_sent_gates(key, sent, worker, decision, observed.resource)
                    task = asyncio.create_task(write, name=f"gates on their way of {key}")
                    gates.tasks.add(task)
                    task.add_done_callback(gates.tasks.discard)
        except Exception:
            log.exception("Gates were not decided on by a defect of the operator; it is tried again.", extra=_of(key))

    async def _write_sent_gates(
        self, key: Key, gates: Sequence[SetGate], worker: ResourceWorker, decision: Decision, resource: Manifest
    ) -> bool:
        """And tell of them. A reconcile that took them for written is done again where they were not."""
        try:
            if await self._write_gates(key, gates, worker) is None:
                self._tell(resource, decision)
                return True
        except OperatorError as error:
            log.info("%s", error, extra=_of(key))
        except Exception:
            log.exception("A gate was not written by a defect of the operator; it is tried again.", extra=_of(key))
        self.wake(key, SOON_SECONDS)
        return False

    async def _write_gates(self, key: Key, gates: Sequence[SetGate], worker: ResourceWorker) -> Stalled | None:
        """Gates come first and together, for pods wait on them. Returns a refusal."""
        try:
            outcomes = await asyncio.gather(*(self._gate(key, gate, worker) for gate in gates), return_exceptions=True)
        finally:
            if worker.gates.arrived(gates):
                self._judge_gates(key, worker)
        # A refused gate says nothing of the others; a lost lease or connection ends the reconcile.
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Stalled):
                raise outcome
        return next((outcome for outcome in outcomes if isinstance(outcome, Stalled)), None)

    async def _act(self, key: Key, actions: Sequence[Action], worker: ResourceWorker) -> Stalled | None:
        """All but the gates, in order, up to the first refusal."""
        for action in actions:
            if not isinstance(action, SetGate) and (refused := await self._try(key, action, worker)):
                return refused
        return None

    async def _gate(self, key: Key, gate: SetGate, worker: ResourceWorker) -> Stalled | None:
        async with self._gates:
            sent, report = self._do.clock.now(), self._do.reports.latest.get(gate.uid)
            refused = await self._try(key, gate, worker)
        if gate.open and report and not refused:
            self._do.metrics.gate_sent_seconds.observe((sent - report.received).total_seconds())
            self._do.metrics.gate_seconds.observe((self._do.clock.now() - report.received).total_seconds())
        return refused

    async def _try(self, key: Key, action: Action, worker: ResourceWorker) -> Stalled | None:
        """Do one action unless the same was refused a moment ago; returns the refusal."""
        if known := worker.refusal(action):
            return known
        try:
            await self._do.writer.perform(key, action)
        except Stalled as error:
            worker.refuse(action, error)
            log.warning("%s", error, extra=_of(key))
            return error
        worker.accept(action)
        words = (type(action).__name__, subject_of(action), action.reason)
        log.info("%s %s: %s", *words, extra=_of(key))
        return None


def _pods(observed: Observed) -> int:
    return len(observed.pods) + len(observed.workers)


def _runs_anew(before: Manifest | None, pod: Manifest) -> bool:
    """Whether a pod runs another container than it was seen with, or none any more."""
    return (target_of(before) if before else None) != target_of(pod)


def _of(key: Key) -> dict[str, str]:
    """What a line of the log is about."""
    return {"resource": f"{key.namespace}/{key.name}"}


def _asked(resource: Manifest) -> tuple[Any, ...]:
    """What people change of a resource."""
    metadata = resource["metadata"]
    return tuple(metadata.get(each) for each in ("uid", "generation", "labels", "annotations", "deletionTimestamp"))


def _rank(observed: Observed) -> Rank:
    """That of a resource of which no pod has news."""
    phase = (observed.resource.get("status") or {}).get("phase")
    return Rank.MOTION if phase in _MOVING else Rank.REST
