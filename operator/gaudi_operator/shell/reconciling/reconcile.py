"""One reconcile of a resource: observe, decide, write gates and children, write the status."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Decision, SetGate
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck
from gaudi_operator.core.classes import classes_need_namespace_labels
from gaudi_operator.core.inference import read_inference_status
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.status.refusal import add_refusal_to_status
from gaudi_operator.errors import StalledError
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.reports import ReportPoller
from gaudi_operator.shell.reconciling.refusals import refusal_subject
from gaudi_operator.shell.reconciling.worker import ReconcileWorker
from gaudi_operator.shell.watching.store import Store, StoreKey
from gaudi_operator.shell.watching.trimmed_objects import decode_trimmed_templates
from gaudi_operator.shell.writing.event_writer import EventPublisher
from gaudi_operator.shell.writing.writer import Writer
from gaudi_runtime.errors import Problem

GATES_AT_ONCE = 32
"""The maximum number of concurrent gate writes of all resources.

A restart may open the gates of 1,000 pods, and other clients need the API server too.
"""

REFUSED_SECONDS = 2.0
"""The minimum seconds until the next reconcile of a resource after a refused request, if nothing changed."""

LABELS_SECONDS = 300.0
"""The refresh interval of namespace labels in seconds, because the operator does not watch them.

Their changes are noticed by the next reconcile, at the latest after this interval.
"""

log = logging.getLogger(__name__)

Wake = Callable[[StoreKey], None]
QueueCheck = Callable[[StoreKey, BucketPolicyCheck, Wake], None]
"""A function that queues the check of a resource's policy, and calls its last argument with the key after the check."""


@dataclass(frozen=True)
class Reconciler:
    """The dependencies of a reconcile. `decide` is pure."""

    store: Store
    reports: ReportPoller
    writer: Writer
    events: EventPublisher
    metrics: MonitoringMetrics
    decide: Callable[[Observed], Decision]
    queue_check: QueueCheck
    clock: Clock = SYSTEM
    gate_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(GATES_AT_ONCE))

    async def reconcile(self, key: StoreKey, worker: ReconcileWorker, wake: Wake) -> float | None:
        """Run one reconcile of a resource, and write its status.

        Returns the seconds until the next reconcile if nothing changes. If the decision needs a check of the policy,
        `wake` is called with the key after the check. Raises OperatorError.
        """
        observed = self._observe(key, worker)
        if observed is None:
            return None
        self.reports.set_polled_pods(key, observed.pods)
        needs_labels = classes_need_namespace_labels(observed)
        if needs_labels:
            observed = replace(observed, namespace_labels=await self.writer.read_namespace_labels(key))
        decision = self.decide(decode_trimmed_templates(observed))
        worker.status_held_since = decision.status_held_since
        worker.refusals.keep_only(decision.actions)
        refusal = await self._write_gates(key, decision.actions, worker)
        await self.writer.check_still_exists(key, decision.actions)
        if not refusal:
            is_current, refusal = await self._perform_actions(key, decision.actions, worker, observed.resource)
            if not is_current:
                return 0.0  # the decided status is outdated too
        if decision.pending_check is not None:
            # Queue the check after the gates are written. The reconcile then ends, so that no slot is held meanwhile.
            self.queue_check(key, decision.pending_check, wake)
            self._publish_events(key, observed, decision)
            return decision.requeue_after
        if refusal:
            problem = Problem(refusal.reason, refusal.message)
            decision = add_refusal_to_status(
                decision, read_inference_status(observed.resource), problem, self.clock.now()
            )
        # Use the resource from the store, because another manager may have written the status of the resource during
        # the reconcile.
        if decision.writes_status:
            await self.writer.write_status(self.store.resource(key) or observed.resource, decision.status)
        self._publish_events(key, observed, decision)
        latest_resource = self.store.resource(key)
        if latest_resource and _user_fields(latest_resource) != _user_fields(observed.resource):
            # The API server's response to the status write contained a changed spec. Reconcile again immediately,
            # because the watch event of this change will not trigger a reconcile.
            return 0.0
        delay = decision.requeue_after
        if refusal and delay is not None:
            delay = max(delay, REFUSED_SECONDS)  # a refused action changes nothing, so nothing can follow at once
        delays = (delay, worker.refusals.seconds_until_retry(), LABELS_SECONDS if needs_labels else None)
        return min((seconds for seconds in delays if seconds is not None), default=None)

    def _observe(self, key: StoreKey, worker: ReconcileWorker) -> Observed | None:
        """Return the current snapshot of a resource; None if it was deleted."""
        resource = self.store.resource(key)
        status_written = self.writer.status_written_at(resource["metadata"]["uid"]) if resource else None
        snapshot = self.store.observe(key, self.reports.latest_reports, self.clock.now(), status_written)
        return replace(snapshot, status_held_since=worker.status_held_since) if snapshot else None

    async def _write_gates(
        self, key: StoreKey, actions: Sequence[Action], worker: ReconcileWorker
    ) -> StalledError | None:
        """Write all gates concurrently, before all other actions. Returns a refusal if a gate was refused."""
        gate_writes = (self._write_gate(key, action, worker) for action in actions if isinstance(action, SetGate))
        outcomes = await asyncio.gather(*gate_writes, return_exceptions=True)
        # A refusal concerns only one gate. Any other error, such as a lost lease or a lost connection, ends the
        # reconcile.
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, StalledError):
                raise outcome
        return next((outcome for outcome in outcomes if isinstance(outcome, StalledError)), None)

    async def _write_gate(self, key: StoreKey, gate: SetGate, worker: ReconcileWorker) -> StalledError | None:
        async with self.gate_slots:
            sent_at, report = self.clock.now(), self.reports.latest_reports.get(gate.uid)
            refusal = await self._perform(key, gate, worker)
        if gate.open and report and not refusal:
            self.metrics.gate_sent_seconds.observe((sent_at - report.received_at).total_seconds())
            self.metrics.gate_seconds.observe((self.clock.now() - report.received_at).total_seconds())
        return refusal

    async def _perform_actions(
        self, key: StoreKey, actions: Sequence[Action], worker: ReconcileWorker, resource: Manifest
    ) -> tuple[bool, StalledError | None]:
        """Perform all actions except gates in order, up to the first refusal.

        Returns (True, refusal or None). If the spec changes during the writes, skips the remaining actions and returns
        (False, None).
        """
        for action in actions:
            if isinstance(action, SetGate):
                continue
            current_resource = self.store.resource(key)
            if current_resource is None or _user_fields(current_resource) != _user_fields(resource):
                return False, None
            if refusal := await self._perform(key, action, worker):
                return True, refusal
        return True, None

    async def _perform(self, key: StoreKey, action: Action, worker: ReconcileWorker) -> StalledError | None:
        """Perform one action unless it was refused recently. Returns the refusal or None. Raises OperatorError."""
        if refusal := worker.refusals.find(action):
            return refusal
        try:
            await self.writer.perform(key, action)
        except StalledError as error:
            worker.refusals.add(action, error)
            log.warning("%s", error, extra=reconcile_log_fields(key))
            return error
        worker.refusals.remove(action)
        log.info(
            "%s %s: %s", type(action).__name__, refusal_subject(action), action.reason, extra=reconcile_log_fields(key)
        )
        return None

    def _publish_events(self, key: StoreKey, observed: Observed, decision: Decision) -> None:
        for event in decision.events:
            self.events.publish(self.store.resource(key) or observed.resource, event)


def reconcile_log_fields(key: StoreKey) -> dict[str, str]:
    """Return the extra fields of a log line that name the reconciled resource."""
    return {"resource": f"{key.namespace}/{key.name}"}


def _user_fields(resource: Manifest) -> tuple[Any, ...]:
    """Return the fields of a resource that its users may change."""
    metadata = resource["metadata"]
    return tuple(metadata.get(name) for name in ("uid", "generation", "labels", "annotations", "deletionTimestamp"))
