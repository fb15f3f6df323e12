"""The order of reconciles if more are due than may run: first gates, then rollouts, then all others.

Within a rank, namespaces take turns, so that a namespace with many resources delays others by at most one reconcile.
Gate changes have separate slots, because other reconciles may take long.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from enum import IntEnum

from gaudi_operator.shell.watching.store import Key


class Rank(IntEnum):
    """The rank of a reconcile that waits for a slot. The lowest number goes first."""

    GATES = 0
    MOTION = 1
    REST = 2


_OTHERS = (Rank.MOTION, Rank.REST)
Waiting = OrderedDict[Key, asyncio.Future[None]]


class Slots:
    """Slots for `at_once` concurrent reconciles, and the same number of additional slots only for gates."""

    def __init__(self, at_once: int) -> None:
        """Create the slots, all of which are free."""
        self._at_once = at_once
        self._running = 0
        self._waiting: dict[Rank, OrderedDict[str, Waiting]] = {rank: OrderedDict() for rank in Rank}

    async def acquire(self, key: Key, rank: Rank) -> None:
        """Wait for a slot. A resource may wait for only one slot at a time."""
        turn = asyncio.get_running_loop().create_future()
        self._add(key, rank, turn)
        self._grant_slots()
        try:
            await turn
        except asyncio.CancelledError:
            if self._remove(key) is None and not turn.cancelled():
                self.release()  # the slot was handed out at the moment of the cancellation
            raise

    def promote_to_gates(self, key: Key) -> None:
        """Give the waiting reconcile of a resource the rank of gates."""
        turn = self._remove(key)
        if turn is not None:
            self._add(key, Rank.GATES, turn)
            self._grant_slots()

    def release(self) -> None:
        """Release a slot, and give it to the next reconcile that waits."""
        self._running -= 1
        self._grant_slots()

    def _grant_slots(self) -> None:
        while turn := self._pop_waiting((Rank.GATES,), 2 * self._at_once) or self._pop_waiting(_OTHERS, self._at_once):
            self._grant_slot(turn)

    def _grant_slot(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            self._running += 1
            turn.set_result(None)

    def _pop_waiting(self, ranks: Sequence[Rank], room: int) -> asyncio.Future[None] | None:
        """Return the next waiting reconcile of `ranks`; None if none is waiting or `room` reconciles are running."""
        waiting_by_namespace = next((found for rank in ranks if (found := self._waiting[rank])), None)
        if not waiting_by_namespace or self._running >= room:
            return None
        namespace, waiting = waiting_by_namespace.popitem(last=False)
        _, turn = waiting.popitem(last=False)
        if waiting:
            waiting_by_namespace[namespace] = waiting
        return turn

    def _add(self, key: Key, rank: Rank, turn: asyncio.Future[None]) -> None:
        self._waiting[rank].setdefault(key.namespace, OrderedDict())[key] = turn

    def _remove(self, key: Key) -> asyncio.Future[None] | None:
        for namespaces in self._waiting.values():
            waiting = namespaces.get(key.namespace, OrderedDict())
            if turn := waiting.pop(key, None):
                if not waiting:
                    del namespaces[key.namespace]
                return turn
        return None
