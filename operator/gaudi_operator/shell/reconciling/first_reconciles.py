"""The progress of a new leader's first reconciles, for the readiness probe and the logs."""

import gc
import logging
from collections.abc import Iterable

from gaudi_operator.clock import Clock
from gaudi_operator.shell.watching.store import Key

log = logging.getLogger(__name__)


class FirstReconciles:
    """The resources that existed at the first list and that this leader has not reconciled yet."""

    def __init__(self, clock: Clock) -> None:
        """Create an empty set."""
        self._clock = clock
        self._left: set[Key] = set()
        self._all = 0
        self._began = 0.0

    def set_pending(self, keys: Iterable[Key]) -> None:
        """Set the resources to reconcile. Called after all kinds are listed."""
        self._left = set(keys)
        self._all, self._began = len(self._left), self._clock.monotonic()
        if self._left:
            log.info("All objects are listed; reconciling %d resources for the first time.", self._all)

    def mark_done(self, key: Key) -> None:
        """Count a resource as done after its first reconcile, even if the reconcile failed, or after its deletion."""
        if key not in self._left:
            return
        self._left.discard(key)
        seconds, done = self._clock.monotonic() - self._began, self._all - len(self._left)
        # Log the progress whenever another tenth of the resources is done.
        if done * 10 // self._all > (done - 1) * 10 // self._all:
            log.info("Reconciled %d of %d resources after %.1f s.", done, self._all, seconds)
        if not self._left:
            # Exclude the current objects from garbage collection. 1,000 resources have a million Python objects, and
            # one collection would delay gates for too long. The objects have no cycles, so reference counting still
            # frees the objects.
            gc.freeze()

    def why_not_done(self) -> str | None:
        """Return a text about the number of reconciled resources; None if all resources are reconciled."""
        if not self._left:
            return None
        return f"reconciling resources for the first time: {self._all - len(self._left)} of {self._all} done"
