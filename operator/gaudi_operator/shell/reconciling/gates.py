"""The gates of one resource that are on their way to the API server, beside whatever else is done for it.

A gate counts as written from the moment on at which it is sent, so that no other one waits for its answer and it is
sent once. Those of one pod go one after the other: which of two arrives last would be chance.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from gaudi_operator.core.actions import Action, SetGate
from gaudi_operator.core.gate.condition import observed_with_gates
from gaudi_operator.core.observed import Observed


@dataclass
class Gates:
    """`deciding` is held from a look at the resource until the gates that follow from it are sent.

    They are `due` when a pod has said what may change its gate, and `task` looks at them then; `tasks` write them, and
    say whether that was done. `sent` counts them, and `seen` is how many that were at the last look.
    """

    deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    due: bool = False
    task: asyncio.Task[None] | None = None
    tasks: set[asyncio.Task[bool]] = field(default_factory=set)
    sent: int = 0
    seen: int = 0
    cancelled: bool = False
    _seen_on_way: tuple[asyncio.Task[bool], ...] = ()
    _on_way: dict[str, SetGate] = field(default_factory=dict)
    _held_back: bool = False

    def send(self, actions: Iterable[Action]) -> list[SetGate]:
        """Those gates among `actions` that are to be written now: those of the pods that have none on its way."""
        wanted = [action for action in actions if isinstance(action, SetGate)]
        free = [gate for gate in wanted if gate.uid not in self._on_way]
        self._held_back |= len(free) < len(wanted)
        self._on_way.update((gate.uid, gate) for gate in free)
        self.sent += len(free)
        return free

    def arrived(self, gates: Iterable[SetGate]) -> bool:
        """Their answers are there, or none will come; returns whether others waited for that."""
        for gate in gates:
            self._on_way.pop(gate.uid, None)
        waited, self._held_back = self._held_back, False
        return waited

    def look(self) -> None:
        """A reconcile looks at the resource, and takes those on their way for written."""
        self.seen, self._seen_on_way = self.sent, tuple(self.tasks)

    async def were_written(self) -> bool:
        """Whether that was so of all of them, once their answers are there: what is not written is not told."""
        if self._seen_on_way:
            await asyncio.wait(self._seen_on_way)
        return all(task.result() for task in self._seen_on_way)

    def assumed(self, observed: Observed) -> Observed:
        """Return the snapshot as it will be once all gates in flight are written."""
        return observed_with_gates(observed, self._on_way.values())

    def cancel(self) -> None:
        """Write no more of them."""
        self.cancelled = True
        for task in (self.task, *self.tasks):
            if task:
                task.cancel()
