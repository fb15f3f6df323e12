"""The progress of a new leader's first reconciles, for the readiness probe and the logs."""

import gc
import logging
from collections.abc import Iterable

from gaudi_operator.clock import Clock
from gaudi_operator.shell.watching.store import StoreKey

log = logging.getLogger(__name__)


class FirstReconciles:
    """The resources that existed at the first list and that this leader has not reconciled yet."""

    def __init__(self, clock: Clock) -> None:
        """Create an empty set."""
        self._clock = clock
        self._pending: set[StoreKey] = set()
        self._total = 0
        self._started = 0.0

    def set_pending(self, keys: Iterable[StoreKey]) -> None:
        """Set the resources to reconcile. Called after all kinds are listed."""
        self._pending = set(keys)
        self._total, self._started = len(self._pending), self._clock.monotonic()
        if self._pending:
            log.info("All objects are listed; reconciling %d resources for the first time.", self._total)

    def mark_done(self, key: StoreKey) -> None:
        """Count a resource as done after its first reconcile, even if the reconcile failed, or after its deletion."""
        if key not in self._pending:
            return
        self._pending.discard(key)
        elapsed_seconds, done_count = self._clock.monotonic() - self._started, self._total - len(self._pending)
        # Log the progress whenever another tenth of the resources is done.
        if done_count * 10 // self._total > (done_count - 1) * 10 // self._total:
            log.info("Reconciled %d of %d resources after %.1f s.", done_count, self._total, elapsed_seconds)
        if not self._pending:
            # Exclude the current objects from garbage collection. 1,000 resources have a million Python objects, and
            # one collection would delay gates for too long. The objects have no cycles, so reference counting still
            # frees the objects.
            gc.freeze()

    def why_not_done(self) -> str | None:
        """Return a text about the number of reconciled resources; None if all resources are reconciled."""
        if not self._pending:
            return None
        return f"reconciling resources for the first time: {self._total - len(self._pending)} of {self._total} done"
