"""What one resource's task remembers between reconciles: how long to wait, and which requests were refused."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Apply, Delete, SetDeletionCost, SetGate
from gaudi_operator.core.observed import Observed, TextKey
from gaudi_operator.errors import Backoff, Forbidden, Stalled, Transient
from gaudi_operator.shell.reconciling.gates import Gates
from gaudi_operator.shell.reconciling.slots import Rank

RIGHTS_DEADLINE_SECONDS = 10.0
"""Missing rights are believed after this time: an API server that has just started does not know them yet."""


@dataclass
class _Refusal:
    """A request that the API server refused, and when it may be tried again although nothing changed."""

    action: Action
    error: Stalled
    again_at: float
    backoff: Backoff
    first_at: float


@dataclass(frozen=True)
class Beside:
    """What a reconcile has asked the API server for, beside what is watched; `asked` is whether it was anything."""

    texts: Mapping[TextKey, str]
    namespace_labels: Mapping[str, str]
    asked: bool

    def added_to(self, observed: Observed) -> Observed:
        """The picture with it."""
        return replace(observed, texts=self.texts, namespace_labels=self.namespace_labels)


@dataclass
class ResourceWorker:
    """The state of one resource's task; nothing here must survive the process.

    `rank` is how urgent the next reconcile is.
    `held_since` is since when there is a status to show that waits for more, and `upgrades` is whether pods of several
    revisions were there at the last look, `pods` how many of any.

    `beside` is what decisions on gates need of the reconcile before: None until there was one, and after one that has
    failed.
    """

    news: asyncio.Event = field(default_factory=asyncio.Event)
    backoff: Backoff = field(default_factory=lambda: Backoff(0.25, 10.0))
    task: asyncio.Task[None] | None = None
    rank: Rank = Rank.REST
    held_since: datetime | None = None
    upgrades: bool = False
    pods: int = 0
    beside: Beside | None = None
    gates: Gates = field(default_factory=Gates)
    clock: Clock = SYSTEM
    _timer: asyncio.TimerHandle | None = None
    _because: set[int | None] = field(default_factory=set)
    _refused: dict[tuple[type[Action], str], _Refusal] = field(default_factory=dict)

    def cancel(self) -> None:
        """End the work for the resource, wherever it is."""
        if self.task:
            self.task.cancel()
        self.gates.cancel()

    def begin(self) -> None:
        """A reconcile looks at everything: what has changed until now asks for no other one."""
        self._because.clear()
        self._rest()

    def look_within(self, seconds: float, version: int | None = None) -> None:
        """Make sure that a reconcile comes, at the latest after `seconds`: because of an object of that version, or of
        something else.
        """
        self._because.add(version)
        if seconds <= 0:
            self._look()
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None and self._timer.when() <= loop.time() + seconds:
            return
        self._stop_timer()
        self._timer = loop.call_later(seconds, self._look)

    def know(self, versions: Iterable[int]) -> None:
        """These were written by ourselves, and alone they ask for no reconcile."""
        # A watch is often quicker than the answer to a write, and tells of it as if somebody else had written.
        if self._because and not self._because.difference(versions):
            self._because.clear()
            self._rest()

    def _rest(self) -> None:
        self.news.clear()
        self._stop_timer()

    def _look(self) -> None:
        self._stop_timer()
        self.news.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expect(self, actions: Iterable[Action]) -> None:
        """Forget refusals of what a new plan no longer asks for."""
        desired = {_subject(action) for action in actions}
        self._refused = {subject: known for subject, known in self._refused.items() if subject in desired}

    def refusal(self, action: Action) -> Stalled | None:
        """The refusal of exactly this action, while trying again would only be a storm."""
        known = self._refused.get(_subject(action))
        return known.error if known and known.action == action and self.clock.monotonic() < known.again_at else None

    def refuse(self, action: Action, error: Stalled) -> None:
        """Remember a refusal; it ends some time, for rights may be granted without a trace in our objects.

        Raises Transient instead while the refusal may be that of an API server that has just started.
        """
        now, known = self.clock.monotonic(), self._refused.get(_subject(action))
        if known is None or known.action != action:
            known = _Refusal(action, error, now, Backoff(2.0, 60.0), now)
        self._refused[_subject(action)] = known
        # As if the way had failed: it is tried again soon, and nobody is bothered with it.
        if isinstance(error, Forbidden) and now - known.first_at < RIGHTS_DEADLINE_SECONDS:
            raise Transient(error.reason, error.message) from error
        known.error, known.again_at = error, now + known.backoff.next()

    def accept(self, action: Action) -> None:
        """The action succeeded."""
        self._refused.pop(_subject(action), None)

    def retry_seconds(self) -> float | None:
        """Seconds until the next refused action may be tried again."""
        waits = [refusal.again_at - self.clock.monotonic() for refusal in self._refused.values()]
        return max(0.0, min(waits)) if waits else None

    async def pause(self, seconds: float | None, wakeable: bool = True) -> None:
        """Wait for news, at most `seconds`; or for the whole time when news do not matter."""
        if not wakeable:
            await asyncio.sleep(seconds or 0.0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            pass


def subject_of(action: Action) -> str:
    """What an action is about, in words; at most one action of a kind in a reconcile is about the same."""
    match action:
        case Apply():
            return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
        case Delete():
            return f"{action.kind} {action.name}"
        case SetGate() | SetDeletionCost():
            return f"Pod {action.pod}"


def _subject(action: Action) -> tuple[type[Action], str]:
    return type(action), subject_of(action)
