"""Refused requests of a resource, which are retried with back-off."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Apply, Delete, SetDeletionCost, SetGate
from gaudi_operator.errors import ForbiddenError, StalledError, TransientError
from gaudi_operator.retry_delays import ExponentialRetryDelays

RIGHTS_DEADLINE_SECONDS = 10.0
"""Seconds before a missing permission is reported. A starting API server may not have loaded all permissions yet."""


@dataclass
class _Refusal:
    """A refused action, and the time of the next retry if nothing changes."""

    action: Action
    error: StalledError
    retry_at: float
    backoff: ExponentialRetryDelays
    first_at: float


@dataclass
class Refusals:
    """The refused actions of one resource. They are kept only in memory."""

    clock: Clock = SYSTEM
    _refusals: dict[tuple[type[Action], str], _Refusal] = field(default_factory=dict)

    def keep_only(self, actions: Iterable[Action]) -> None:
        """Remove the refusals of actions that the new decision does not contain."""
        desired_keys = {_refusal_key(action) for action in actions}
        self._refusals = {key: refusal for key, refusal in self._refusals.items() if key in desired_keys}

    def find(self, action: Action) -> StalledError | None:
        """Return the refusal of an equal action; None if there is no refusal or the action may be retried now."""
        refusal = self._refusals.get(_refusal_key(action))
        if refusal and refusal.action == action and self.clock.monotonic() < refusal.retry_at:
            return refusal.error
        return None

    def add(self, action: Action, error: StalledError) -> None:
        """Store a refusal, and schedule a retry, because permissions may be granted without a visible change.

        Raises TransientError instead if a permission has been missing only for a short time, because the API server may
        just have started.
        """
        now, refusal = self.clock.monotonic(), self._refusals.get(_refusal_key(action))
        if refusal is None or refusal.action != action:
            refusal = _Refusal(action, error, now, ExponentialRetryDelays(2.0, 60.0), now)
        self._refusals[_refusal_key(action)] = refusal
        # Retry a recent permission error soon, and do not show the error in the status. A starting API server may not
        # have loaded all permissions yet.
        if isinstance(error, ForbiddenError) and now - refusal.first_at < RIGHTS_DEADLINE_SECONDS:
            raise TransientError(error.reason, error.message) from error
        refusal.error, refusal.retry_at = error, now + refusal.backoff.next()

    def remove(self, action: Action) -> None:
        """Remove the refusal of an action that has succeeded."""
        self._refusals.pop(_refusal_key(action), None)

    def seconds_until_retry(self) -> float | None:
        """Return the seconds until the first retry; None if there is no refusal."""
        delays = [refusal.retry_at - self.clock.monotonic() for refusal in self._refusals.values()]
        return max(0.0, min(delays)) if delays else None


def refusal_subject(action: Action) -> str:
    """Return the object of an action as text. A reconcile has at most one action of each type per object."""
    match action:
        case Apply():
            return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
        case Delete():
            return f"{action.kind} {action.name}"
        case SetGate() | SetDeletionCost():
            return f"Pod {action.pod}"


def _refusal_key(action: Action) -> tuple[type[Action], str]:
    return type(action), refusal_subject(action)
