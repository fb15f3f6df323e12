"""The loop: observe, decide, write, show. One task per resource, never two reconciles of a resource at once."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from gaudi_operator.core.actions import Action, Decision, SetGate
from gaudi_operator.core.classes import asks_for_labels
from gaudi_operator.core.gate.condition import gate_status
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.resource import read_status
from gaudi_operator.core.status.status import moves_within
from gaudi_operator.core.texts import named_texts
from gaudi_operator.errors import OperatorError, Stalled, Transient, Waiting
from gaudi_operator.shell.kinds import CLASS, POD, RESOURCE, Kind, kind_of
from gaudi_operator.shell.reconciling.effects import Effects, of
from gaudi_operator.shell.reconciling.first_passes import FirstPasses
from gaudi_operator.shell.reconciling.gate_writer import GateWriter
from gaudi_operator.shell.reconciling.resource_worker import Beside, ResourceWorker
from gaudi_operator.shell.reconciling.slots import Rank, Slots
from gaudi_operator.shell.reports import target_of
from gaudi_operator.shell.watching.store import CLASSES, Key, version_of
from gaudi_operator.shell.writing.apply import with_failure

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
THREADS = 2
"""With which the loop shares Python, so that gates are decided on meanwhile: a long one leaves another to the rest."""
_MOVING = frozenset({"Pending", "WarmingUp", "RollingOut"})
TEXTS_SECONDS = 300.0
"""ConfigMaps of others and labels of namespaces are not watched: an edit is noticed with the next reconcile, and after
so long at most.
"""

log = logging.getLogger(__name__)


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
        self._slots = Slots(at_once)
        self._gates = GateWriter(effects, decide_gates, lambda key: self.wake(key, SOON_SECONDS))
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
                self._container_has_news(key, gate_status(manifest) == "True", SOON_SECONDS, version)
            elif kind is POD:
                self._pod_has_news(key, before, manifest, version)
            else:
                self.wake(key, 0.0 if kind in (RESOURCE, CLASS) else SOON_SECONDS, version)

    def gone(self, manifest: Manifest) -> None:
        """A watch has shown the last of an object."""
        if key := self._do.store.remove(manifest):
            self._do.store.doubt(kind_of(manifest), key)
            self.wake(key, 0.0 if kind_of(manifest) is RESOURCE else SOON_SECONDS)

    def listed(self, kind: Kind, namespace: str | None, uids: Collection[str], version: int) -> None:
        """All objects of a kind, in one namespace or in all, were seen; these are their UIDs."""
        store = self._do.store
        waited = bool(store.unlisted)
        woken = store.end_list(kind, namespace, uids, version)
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

    def _pod_has_news(self, key: Key, before: Manifest | None, pod: Manifest, version: int) -> None:
        """One that has come, or got a node, changes the status alone: that is looked at when it may be shown."""
        worker = self._workers.get(key)
        if worker is None or worker.upgrades or _state(before) != _state(pod):
            self.wake(key, self._pods_within(key), version)
            return
        worker.held_since = worker.held_since or self._do.clock.now()
        self.wake(key, moves_within(worker.pods) + SOON_SECONDS, version)

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
        self._gates.judge(key, worker)

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
        while self._do.store.resource(key):
            with self._do.metrics.queued.track_inprogress():
                await self._slots.acquire(key, min(worker.rank, self._rank(key)))
            try:
                observed = self._observe(key, worker)
                if observed is None:
                    break  # gone while it waited for its turn
                worker.rank = Rank.REST
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

    def _observe(self, key: Key, worker: ResourceWorker) -> Observed | None:
        """The picture now; None when the resource is gone."""
        # Before the look: what changes from now on must end the next pause.
        worker.begin()
        worker.gates.look()
        observed = self._do.observe(key, worker.gates)
        return replace(observed, status_held=worker.held_since) if observed else None

    def _rank(self, key: Key) -> Rank:
        """That of a resource of which no pod has news."""
        status = (self._do.store.resource(key) or {}).get("status") or {}
        return Rank.MOTION if status.get("phase") in _MOVING else Rank.REST

    def _observe_again(self, key: Key, before: Observed, worker: ResourceWorker, beside: Beside) -> Observed:
        """With the gates that were sent while the reconcile waited for its turn: they are not sent again."""
        worker.gates.look()
        now = self._do.observe(key, worker.gates)
        return replace(beside.added_to(now), status_held=before.status_held) if now else before

    async def _guarded_pass(self, key: Key, observed: Observed, worker: ResourceWorker) -> tuple[float | None, bool]:
        """One reconcile; returns how long to wait at most after it, and whether news may end the wait earlier."""
        outcome, wakeable = "done", False
        try:
            with self._do.metrics.seconds.time():
                seconds, wakeable = await self._pass(key, observed, worker), True
            worker.backoff.reset()
        except Waiting as error:
            outcome, seconds = "waiting", error.seconds
            log.info("%s", error, extra=of(key))
        except Transient as error:
            outcome, seconds = "transient", max(worker.backoff.next(), error.retry_after or 0.0)
            log.warning("%s", error, extra=of(key))
        except OperatorError as error:
            outcome, seconds = "refused", worker.backoff.next()
            log.warning("%s", error, extra=of(key))
        except Exception:
            outcome, seconds = "bug", worker.backoff.next()
            log.exception("The reconcile failed by a defect of the operator; it is tried again.", extra=of(key))
        if not wakeable:
            worker.beside = None  # no gate shortens this wait either
        self._do.metrics.passes.labels(outcome).inc()
        return seconds, wakeable

    async def _pass(self, key: Key, observed: Observed, worker: ResourceWorker) -> float | None:
        """Observe is done; decide, act, show, publish. Returns the seconds after which to look again."""
        self._do.reports.follow(key, observed.pods)
        beside = worker.beside = await self._ask_beside(key, observed)
        observed = beside.added_to(observed)
        async with worker.gates.deciding:
            if worker.gates.sent != worker.gates.seen:
                observed = self._observe_again(key, observed, worker, beside)
            decision = await self._decided(observed)
            gates = worker.gates.send(decision.actions)
        worker.upgrades, worker.pods = decision.upgrades, len(observed.pods)
        worker.held_since = (worker.held_since or observed.now) if decision.holds else None
        worker.expect(decision.actions)
        refusal = await self._gates.write(key, gates, worker)
        await self._do.writer.recheck(key, decision.actions)
        if not refusal:
            done, refusal = await self._act(key, decision.actions, worker, observed.resource)
            if not done:
                return 0.0  # nor is what its status would tell
        if not await worker.gates.were_written():
            return SOON_SECONDS
        if decision.question is not None:
            # Gates are written; nobody holds a slot while a plan is worked out, and news go on to be looked at.
            assert self._do.ask  # noqa: S101 - who answers at once leaves no question
            self._do.ask(key, decision.question, self.wake)
            # Of the gates: the reconcile that follows finds them written, and tells of them no more.
            self._do.tell(self._do.store.resource(key) or observed.resource, decision)
            return decision.look_again_seconds
        if refusal:
            decision = with_failure(decision, read_status(observed.resource), refusal, self._do.clock.now())
        # As it is by now: the status may have been written by another manager during the reconcile.
        resource = self._do.store.resource(key) or observed.resource
        await self._do.writer.show(resource, decision.status)
        self._do.tell(resource, decision)
        shown = self._do.store.resource(key)
        if shown and _asked(shown) != _asked(observed.resource):
            # The answer to our write has it already, so that the watch's event of it will be no news and wake nobody.
            return 0.0
        again = decision.look_again_seconds
        if refusal and again is not None:
            again = max(again, REFUSED_SECONDS)  # nothing follows at once from what was not done
        waits = (again, worker.retry_seconds(), TEXTS_SECONDS if beside.asked else None)
        return min((each for each in waits if each is not None), default=None)

    async def _ask_beside(self, key: Key, observed: Observed) -> Beside:
        """What the spec and the classes name, and no watch shows."""
        named = named_texts(observed.resource)
        texts = await self._do.writer.texts(key, named) if named else {}
        by_labels = asks_for_labels(observed)
        labels = await self._do.writer.namespace_labels(key) if by_labels else {}
        return Beside(texts, labels, asked=bool(named) or by_labels)

    async def _decided(self, observed: Observed) -> Decision:
        """In a thread where it takes long, for nothing may block the loop: of a thousand pods that is a second."""
        if observed.pod_count <= FEW_PODS:
            return self._decide(observed)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._decide, observed)

    async def _act(
        self, key: Key, actions: Sequence[Action], worker: ResourceWorker, decided_on: Manifest
    ) -> tuple[bool, Stalled | None]:
        """All but the gates, in order, up to the first refusal. False where another spec was seen meanwhile: writes may
        take long, and what the rest was decided on is wanted no more.
        """
        for action in actions:
            if isinstance(action, SetGate):
                continue
            now = self._do.store.resource(key)
            if now is None or _asked(now) != _asked(decided_on):
                return False, None
            if refused := await self._do.act(key, action, worker):
                return True, refused
        return True, None


def _runs_anew(before: Manifest | None, pod: Manifest) -> bool:
    """Whether a pod runs another container than it was seen with, or none any more."""
    return (target_of(before) if before else None) != target_of(pod)


def _state(pod: Manifest | None) -> tuple[Any, ...]:
    """What a pod is to others: a new one is as good as none."""
    status = (pod or {}).get("status") or {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    going = pod is not None and "deletionTimestamp" in pod["metadata"]
    return status.get("phase", "Pending"), ready, going, gate_status(pod or {})


def _asked(resource: Manifest) -> tuple[Any, ...]:
    """What people change of a resource."""
    metadata = resource["metadata"]
    return tuple(metadata.get(each) for each in ("uid", "generation", "labels", "annotations", "deletionTimestamp"))
