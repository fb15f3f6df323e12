"""The controller, which has one task per resource, so that reconciles of one resource never overlap."""

import asyncio
import logging
from collections.abc import Collection

from gaudi_operator.core.observed import Manifest
from gaudi_operator.errors import OperatorError, TransientError, WaitingError
from gaudi_operator.shell.kinds import RESOURCE, Kind, kind_of
from gaudi_operator.shell.reconciling.first_reconciles import FirstReconciles
from gaudi_operator.shell.reconciling.reconcile import Reconciler, reconcile_log_fields
from gaudi_operator.shell.reconciling.refusals import Refusals
from gaudi_operator.shell.reconciling.slots import Rank, ReconcileSlots
from gaudi_operator.shell.reconciling.triggers import (
    FOLLOW_SECONDS,
    may_trigger_gate_close,
    trigger_delay_after_change,
    trigger_delay_after_report,
)
from gaudi_operator.shell.reconciling.worker import ReconcileWorker
from gaudi_operator.shell.watching.store import CLASSES, StoreKey, stored_version

log = logging.getLogger(__name__)


class Controller:
    """The controller, which reconciles woken resources. The number of concurrent reconciles is limited."""

    def __init__(self, reconciler: Reconciler, max_concurrent: int) -> None:
        """Create a controller with at most `max_concurrent` concurrent reconciles."""
        self._reconciler = reconciler
        self._store, self._metrics, self._clock = reconciler.store, reconciler.metrics, reconciler.clock
        self._slots = ReconcileSlots(max_concurrent)
        self._workers: dict[StoreKey, ReconcileWorker] = {}
        self._stopped = False
        self._first_reconciles = FirstReconciles(self._clock)

    def handle_change(self, manifest: Manifest) -> None:
        """Store a changed object from a watch, and wake its resource."""
        previous = self._store.find(manifest)
        if key := self._store.put(manifest):
            delay, urgent = (
                trigger_delay_after_change(previous, manifest, self._store.resource(key)),
                may_trigger_gate_close(previous, manifest),
            )
            self.wake(key, delay, stored_version(manifest), urgent=urgent)
            if urgent and (worker := self._workers.get(key)):
                worker.end_back_off()

    def handle_deletion(self, manifest: Manifest) -> None:
        """Remove a deleted object, and wake its resource."""
        if key := self._store.remove(manifest):
            self._store.mark_maybe_deleted(kind_of(manifest), key)
            self.wake(key, 0.0 if kind_of(manifest) is RESOURCE else FOLLOW_SECONDS)

    def handle_list_end(self, kind: Kind, namespace: str | None, uids: Collection[str], version: int) -> None:
        """Process the end of a list of `kind` in `namespace` (None: all). `uids` are the UIDs of the listed objects."""
        had_unlisted = bool(self._store.unlisted)
        keys = self._store.end_list(kind, namespace, uids, version)
        if had_unlisted and not self._store.unlisted:
            self._first_reconciles.set_pending(self._store.resource_keys())
        for key in keys:
            self.wake(key)

    def handle_report(self, key: StoreKey, urgent: bool) -> None:
        """Wake the resource of a pod that has sent a report. `urgent` is True if the report may change the gate."""
        self.wake(key, trigger_delay_after_report(urgent, self._store.resource(key)), urgent=urgent)

    def why_not_ready(self) -> str | None:
        """Return a text about resources that wait for the first reconcile of this leader; None if no resource waits."""
        return self._first_reconciles.why_not_done()

    def wake(self, key: StoreKey, delay: float = 0.0, version: int | None = None, *, urgent: bool = False) -> None:
        """Schedule a reconcile within `delay` seconds after a change. Several calls cause one reconcile.

        `version` is the version of the changed object, if there is one. An `urgent` reconcile goes before others,
        because a gate may change.
        """
        # Do not reconcile before every kind is listed. Otherwise objects of an unlisted kind would count as deleted.
        if self._store.unlisted:
            return
        if key == CLASSES:
            for resource_key in self._store.resource_keys():
                self.wake(resource_key, delay)
            return
        worker = self._workers.get(key)
        if worker is None and not self._stopped and self._store.resource(key):
            worker = self._workers[key] = ReconcileWorker(Refusals(self._clock))
            worker.task = asyncio.create_task(
                self._reconcile_until_deleted(key, worker), name=f"reconcile {key.namespace}/{key.name}"
            )
        if worker:
            worker.wake(delay, version)
        if worker and urgent:
            worker.rank = Rank.GATES
            self._slots.promote_to_gates(key)

    def stop(self) -> None:
        """Stop all work. No write starts after this call."""
        self._stopped = True
        for worker in self._workers.values():
            worker.cancel()

    async def _reconcile_until_deleted(self, key: StoreKey, worker: ReconcileWorker) -> None:
        """Reconcile the resource until it is deleted."""
        while self._store.resource(key):
            await self._renew_reports(key, worker)
            with self._metrics.queued.track_inprogress():
                await self._slots.acquire(key, min(worker.rank, self._rank(key)))
            try:
                if self._generation(key) != worker.generation:
                    continue  # the spec changed or the resource was deleted while the reconcile waited for its slot
                worker.mark_started()
                requeue_seconds, failed = await self._reconcile(key, worker)
            finally:
                self._slots.release()
            self._first_reconciles.mark_done(key)
            recent_writes = self._reconciler.writer.pop_recent_writes(key)
            worker.ignore_versions(recent_writes.versions)
            if failed:
                await worker.back_off(requeue_seconds or 0.0)
            else:
                await worker.wait(0.0 if recent_writes.has_foreign_changes else requeue_seconds)
        self._reconciler.reports.set_polled_pods(key, ())
        self._first_reconciles.mark_done(key)
        # The resource no longer exists. No wake-up is lost here, because no `await` follows the last check of the loop.
        del self._workers[key]

    async def _renew_reports(self, key: StoreKey, worker: ReconcileWorker) -> None:
        """Request new reports if the spec has changed, because a scale-down removes the pods with the fewest requests.

        This method runs without a slot, because pods may be slow to answer.
        """
        previous_generation, worker.generation = worker.generation, self._generation(key)
        if previous_generation not in (None, worker.generation):
            await self._reconciler.reports.renew(key)

    def _generation(self, key: StoreKey) -> int | None:
        resource = self._store.resource(key)
        return int(resource["metadata"].get("generation", 0)) if resource else None

    async def _reconcile(self, key: StoreKey, worker: ReconcileWorker) -> tuple[float | None, bool]:
        """Run one reconcile. Returns the maximum seconds until the next reconcile, and True if the reconcile failed."""
        outcome, requeue_seconds, failed = "done", None, True
        try:
            with self._metrics.reconcile_seconds.time():
                requeue_seconds, failed = await self._reconciler.reconcile(key, worker, self.wake), False
            worker.backoff.reset()
        except WaitingError as error:
            outcome, requeue_seconds = "waiting", error.seconds
            log.info("%s", error, extra=reconcile_log_fields(key))
        except TransientError as error:
            outcome, requeue_seconds = "transient", max(worker.backoff.next(), error.retry_after or 0.0)
            log.warning("%s", error, extra=reconcile_log_fields(key))
        except OperatorError as error:
            outcome, requeue_seconds = "refused", worker.backoff.next()
            log.warning("%s", error, extra=reconcile_log_fields(key))
        except Exception:
            outcome, requeue_seconds = "bug", worker.backoff.next()
            log.exception(
                "The reconcile failed because of a defect of the operator. It is retried.",
                extra=reconcile_log_fields(key),
            )
        self._metrics.reconciles.labels(outcome).inc()
        return requeue_seconds, failed

    def _rank(self, key: StoreKey) -> Rank:
        """Return the rank of a resource's next reconcile if the reconcile changes no gate."""
        status = (self._store.resource(key) or {}).get("status") or {}
        statuses = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
        return Rank.MOTION if statuses.get("Reconciling") == "True" else Rank.REST
