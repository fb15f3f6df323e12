"""Requests of a resource that the API server refused: they are not sent again at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Apply, Delete, SetDeletionCost, SetGate
from gaudi_operator.errors import Backoff, Forbidden, Stalled, Transient

RIGHTS_DEADLINE_SECONDS = 10.0
"""Missing rights are believed after this time: an API server that has just started does not know them yet."""


@dataclass
class _Refusal:
    """A request that was refused, and when it may be tried again although nothing changed."""

    action: Action
    error: Stalled
    again_at: float
    backoff: Backoff
    first_at: float


@dataclass
class Refusals:
    """The refused actions of one resource; nothing here must survive the process."""

    clock: Clock = SYSTEM
    _known: dict[tuple[type[Action], str], _Refusal] = field(default_factory=dict)

    def keep_only(self, actions: Iterable[Action]) -> None:
        """Forget refusals of what a new decision no longer asks for."""
        desired = {_subject(action) for action in actions}
        self._known = {subject: known for subject, known in self._known.items() if subject in desired}

    def find(self, action: Action) -> Stalled | None:
        """The refusal of exactly this action, as long as it is not to be tried again."""
        known = self._known.get(_subject(action))
        return known.error if known and known.action == action and self.clock.monotonic() < known.again_at else None

    def add(self, action: Action, error: Stalled) -> None:
        """Remember a refusal; it ends some time, for rights may be granted without a trace in our objects.

        Raises Transient instead while the refusal may be that of an API server that has just started.
        """
        now, known = self.clock.monotonic(), self._known.get(_subject(action))
        if known is None or known.action != action:
            known = _Refusal(action, error, now, Backoff(2.0, 60.0), now)
        self._known[_subject(action)] = known
        # As if the way had failed: it is tried again soon, and no status shows it.
        if isinstance(error, Forbidden) and now - known.first_at < RIGHTS_DEADLINE_SECONDS:
            raise Transient(error.reason, error.message) from error
        known.error, known.again_at = error, now + known.backoff.next()

    def remove(self, action: Action) -> None:
        """The action succeeded."""
        self._known.pop(_subject(action), None)

    def next_seconds(self) -> float | None:
        """Seconds until the first refused action may be tried again; None without one."""
        waits = [refusal.again_at - self.clock.monotonic() for refusal in self._known.values()]
        return max(0.0, min(waits)) if waits else None


def subject_of(action: Action) -> str:
    """Return the object that an action is about, in words; a reconcile has one action of a kind for each object."""
    match action:
        case Apply():
            return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
        case Delete():
            return f"{action.kind} {action.name}"
        case SetGate() | SetDeletionCost():
            return f"Pod {action.pod}"


def _subject(action: Action) -> tuple[type[Action], str]:
    return type(action), subject_of(action)
