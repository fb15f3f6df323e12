"""How far a new leader is with what was there before it: its readiness says so, and its log."""

import gc
import logging
from collections.abc import Iterable

from gaudi_operator.clock import Clock
from gaudi_operator.shell.watching.store import Key

log = logging.getLogger(__name__)


class FirstReconciles:
    """The resources that were there when everything was listed, until each was looked at."""

    def __init__(self, clock: Clock) -> None:
        """None are known."""
        self._clock = clock
        self._left: set[Key] = set()
        self._all = 0
        self._began = 0.0

    def expect(self, keys: Iterable[Key]) -> None:
        """All kinds were listed, and these are the resources."""
        self._left = set(keys)
        self._all, self._began = len(self._left), self._clock.monotonic()
        if self._left:
            log.info("Everything is listed; %d resources are looked at for the first time.", self._all)

    def done(self, key: Key) -> None:
        """One was looked at, whatever came of it, or is gone."""
        if key not in self._left:
            return
        self._left.discard(key)
        seconds, done = self._clock.monotonic() - self._began, self._all - len(self._left)
        # A line for each tenth: whoever waits wants to know whether it goes on.
        if done * 10 // self._all > (done - 1) * 10 // self._all:
            log.info("%d of %d resources were looked at, after %.1f s.", done, self._all, seconds)
        if not self._left:
            # A million objects of a thousand resources, none of them in a cycle: to look through them takes longer than
            # a gate may wait. They go all the same when nothing refers to them.
            gc.freeze()

    def why_not_done(self) -> str | None:
        """How many are left; None when none are."""
        if not self._left:
            return None
        return f"looks at resources for the first time: {self._all - len(self._left)} of {self._all} are done"
