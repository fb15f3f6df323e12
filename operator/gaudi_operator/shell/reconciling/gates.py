"""The gates of one resource that are on their way to the API server, beside whatever else is done for it.

A gate counts as written from the moment on at which it is sent, so that no other one waits for its answer and it is
sent once. Those of one pod go one after the other: which of two arrives last would be chance.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gaudi_operator.core.actions import Action, SetGate
from gaudi_operator.core.names import GATE
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_runtime.contract.text import on_one_line


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
        """The picture as it is once all have arrived."""
        if not self._on_way:
            return observed
        ways = ((pod, self._on_way.get(pod["metadata"]["uid"])) for pod in observed.pods)
        pods = tuple(_with_gate(pod, gate, observed.now) if gate else pod for pod, gate in ways)
        return replace(observed, pods=pods)

    def cancel(self) -> None:
        """Write no more of them."""
        self.cancelled = True
        for task in (self.task, *self.tasks):
            if task:
                task.cancel()


def gate_condition(pod: Mapping[str, Any], gate: SetGate, now: datetime) -> dict[str, str]:
    """The condition that is written for `gate` into the status of `pod`, an empty one where nothing is known of it."""
    known = next((each for each in _conditions(pod) if each["type"] == GATE), {})
    status = "True" if gate.open else "False"
    # A gate that is written again keeps its time: how long it is open counts from there.
    since = known.get("lastTransitionTime") if known.get("status") == status else None
    return {
        "type": GATE,
        "status": status,
        "reason": gate.reason,
        "message": on_one_line(gate.message),
        "lastTransitionTime": str(since or now.strftime("%Y-%m-%dT%H:%M:%SZ")),
    }


def _with_gate(pod: Manifest, gate: SetGate, now: datetime) -> Manifest:
    others = [each for each in _conditions(pod) if each["type"] != GATE]
    return {**pod, "status": {**pod.get("status", {}), "conditions": [*others, gate_condition(pod, gate, now)]}}


def _conditions(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("conditions") or ()
