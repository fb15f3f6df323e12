"""Writes gates: those that a pod's news open or shut, at once, and those that a reconcile has decided on.

Gates that pods wait for are decided on and sent although a reconcile of their resource writes other things, or waits
for its turn. What fails here, the next reconcile tries again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from gaudi_operator.core.actions import Decision, SetGate
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.errors import OperatorError, Stalled
from gaudi_operator.shell.reconciling.effects import Effects, of
from gaudi_operator.shell.reconciling.resource_worker import ResourceWorker
from gaudi_operator.shell.watching.store import Key

# A restart may open the gates of a thousand pods at once, and other resources want the API server too.
AT_ONCE = 32
FEW_PODS = 20
"""Up to so many a decision takes a millisecond, and a thread for it would take as much."""

log = logging.getLogger(__name__)


class GateWriter:
    """For all resources. No two decisions on the gates of one resource are made at once."""

    def __init__(self, effects: Effects, decide: Callable[[Observed], Decision], again: Callable[[Key], None]) -> None:
        """`decide` is the part of the decision that is about gates; `again` has a resource reconciled, of which a gate
        that counted as written was not.
        """
        self._do = effects
        self._decide = decide
        self._again = again
        self._free = asyncio.Semaphore(AT_ONCE)

    def judge(self, key: Key, worker: ResourceWorker) -> None:
        """A pod has said what may change its gate: look at those of its resource now, or once more when that is being
        done.
        """
        gates = worker.gates
        gates.due = True
        if gates.cancelled:
            return
        if gates.task is None or gates.task.done():
            gates.task = asyncio.create_task(self._send_due(key, worker), name=f"gates of {key}")

    async def write(self, key: Key, gates: Sequence[SetGate], worker: ResourceWorker) -> Stalled | None:
        """All together, for pods wait on them, and return a refusal. Raises OperatorError where one did not get that
        far.
        """
        try:
            outcomes = await asyncio.gather(*(self._one(key, gate, worker) for gate in gates), return_exceptions=True)
        finally:
            if worker.gates.arrived(gates):
                self.judge(key, worker)
        # A refused gate says nothing of the others; a lost lease or connection ends the reconcile.
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Stalled):
                raise outcome
        return next((outcome for outcome in outcomes if isinstance(outcome, Stalled)), None)

    async def _send_due(self, key: Key, worker: ResourceWorker) -> None:
        gates = worker.gates
        try:
            while gates.due:
                async with gates.deciding:
                    gates.due = False
                    observed = self._do.observe(key, gates)
                    if observed is None or worker.beside is None:
                        return
                    decision = await self._decided(worker.beside.added_to(observed))
                    sent = gates.send(decision.actions)
                if sent:
                    write = self._write_sent(key, sent, worker, decision, observed.resource)
                    task = asyncio.create_task(write, name=f"gates on their way of {key}")
                    gates.tasks.add(task)
                    task.add_done_callback(gates.tasks.discard)
        except Exception:
            log.exception("Gates were not decided on by a defect of the operator; it is tried again.", extra=of(key))

    async def _decided(self, observed: Observed) -> Decision:
        """Of many pods in a thread, and in none of those for whole decisions: they may be busy."""
        if observed.pod_count <= FEW_PODS:
            return self._decide(observed)
        return await asyncio.to_thread(self._decide, observed)

    async def _write_sent(
        self, key: Key, gates: Sequence[SetGate], worker: ResourceWorker, decision: Decision, resource: Manifest
    ) -> bool:
        """And tell of them. A reconcile that took them for written is done again where they were not."""
        try:
            if await self.write(key, gates, worker) is None:
                self._do.tell(resource, decision)
                return True
        except OperatorError as error:
            log.info("%s", error, extra=of(key))
        except Exception:
            log.exception("A gate was not written by a defect of the operator; it is tried again.", extra=of(key))
        self._again(key)
        return False

    async def _one(self, key: Key, gate: SetGate, worker: ResourceWorker) -> Stalled | None:
        async with self._free:
            sent, report = self._do.clock.now(), self._do.reports.latest.get(gate.uid)
            refused = await self._do.act(key, gate, worker)
        if gate.open and report and not refused:
            self._do.metrics.gate_sent_seconds.observe((sent - report.received).total_seconds())
            self._do.metrics.gate_seconds.observe((self._do.clock.now() - report.received).total_seconds())
        return refused
