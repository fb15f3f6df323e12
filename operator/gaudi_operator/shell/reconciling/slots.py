"""The order of reconciles if more are due than may run: first gates, then rollouts, then all others.

Within a rank, namespaces take turns, so that a namespace with many resources delays others by at most one reconcile.
Gate changes have separate slots, because other reconciles may take long.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from enum import IntEnum

from gaudi_operator.shell.watching.store import StoreKey


class Rank(IntEnum):
    """The rank of a reconcile that waits for a slot. The lowest number goes first."""

    GATES = 0
    MOTION = 1
    REST = 2


_OTHERS = (Rank.MOTION, Rank.REST)
Waiting = OrderedDict[StoreKey, asyncio.Future[None]]


class ReconcileSlots:
    """Slots for `max_concurrent` concurrent reconciles, and the same number of additional slots only for gates."""

    def __init__(self, max_concurrent: int) -> None:
        """Create the slots, all of which are free."""
        self._limit = max_concurrent
        self._running_count = 0
        self._waiting: dict[Rank, OrderedDict[str, Waiting]] = {rank: OrderedDict() for rank in Rank}

    async def acquire(self, key: StoreKey, rank: Rank) -> None:
        """Wait for a slot. A resource may wait for only one slot at a time."""
        waiter = asyncio.get_running_loop().create_future()
        self._add(key, rank, waiter)
        self._grant_slots()
        try:
            await waiter
        except asyncio.CancelledError:
            if self._remove(key) is None and not waiter.cancelled():
                self.release()  # the slot was handed out at the moment of the cancellation
            raise

    def promote_to_gates(self, key: StoreKey) -> None:
        """Give the waiting reconcile of a resource the rank of gates."""
        waiter = self._remove(key)
        if waiter is not None:
            self._add(key, Rank.GATES, waiter)
            self._grant_slots()

    def release(self) -> None:
        """Release a slot, and give it to the next reconcile that waits."""
        self._running_count -= 1
        self._grant_slots()

    def _grant_slots(self) -> None:
        while waiter := self._pop_waiting((Rank.GATES,), 2 * self._limit) or self._pop_waiting(_OTHERS, self._limit):
            self._grant_slot(waiter)

    def _grant_slot(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            self._running_count += 1
            waiter.set_result(None)

    def _pop_waiting(self, ranks: Sequence[Rank], limit: int) -> asyncio.Future[None] | None:
        """Return the next waiting reconcile of `ranks`; None if none is waiting or `limit` reconciles are running."""
        waiting_by_namespace = next((namespaces for rank in ranks if (namespaces := self._waiting[rank])), None)
        if not waiting_by_namespace or self._running_count >= limit:
            return None
        namespace, waiters = waiting_by_namespace.popitem(last=False)
        _, waiter = waiters.popitem(last=False)
        if waiters:
            waiting_by_namespace[namespace] = waiters
        return waiter

    def _add(self, key: StoreKey, rank: Rank, waiter: asyncio.Future[None]) -> None:
        self._waiting[rank].setdefault(key.namespace, OrderedDict())[key] = waiter

    def _remove(self, key: StoreKey) -> asyncio.Future[None] | None:
        for waiting_by_namespace in self._waiting.values():
            waiters = waiting_by_namespace.get(key.namespace, OrderedDict())
            if waiter := waiters.pop(key, None):
                if not waiters:
                    del waiting_by_namespace[key.namespace]
                return waiter
        return None
