"""What can go wrong in a reconcile, sorted by the reaction that it asks for.

OperatorError
├── Stalled     nothing helps but a change by somebody: the API server refuses the request (422, 400)
│   └── Forbidden   rights are missing (403), or the API server has just started and does not know them yet
├── Waiting     the cluster is about to change by itself: look again after `seconds`
├── Transient   the way to the API server failed (no answer, 5xx, 429, conflict): back off and try again
├── NotFound    the object of the request is not there, or has another UID
└── NotLeader   the lease is lost or too old to be sure of: no write may leave this process

Errors of libraries are translated at one border (shell/client.py), with their cause chained. Backoff says how long to
wait before the next try.
"""

import random
from dataclasses import dataclass


class OperatorError(Exception):
    """Anything that ends a reconcile. `reason` is a CamelCase word for conditions, events and metrics."""

    def __init__(self, reason: str, message: str) -> None:
        """Take the machine's word and the person's sentence."""
        super().__init__(message)
        self.reason = reason
        self.message = message


class Stalled(OperatorError):
    """Trying again as it is would fail again."""


class Forbidden(Stalled):
    """Rights are missing. An API server that has just started says so too, for some seconds."""


class Waiting(OperatorError):
    """The obstacle goes away by itself; look again after `seconds`."""

    def __init__(self, reason: str, message: str, seconds: float) -> None:
        """`seconds` until another look is worth it."""
        super().__init__(reason, message)
        self.seconds = seconds


class Transient(OperatorError):
    """The next try may succeed; `retry_after` seconds when the server named a time."""

    def __init__(self, reason: str, message: str, retry_after: float | None = None) -> None:
        """`retry_after` in seconds, from the server's Retry-After header."""
        super().__init__(reason, message)
        self.retry_after = retry_after


class NotFound(OperatorError):
    """The object is gone, or another one has taken its name."""


class NotLeader(OperatorError):
    """Another replica may lead by now."""


@dataclass
class Backoff:
    """Delays from `first` to `most` seconds; each is drawn from the upper half of its step."""

    first: float
    most: float
    failures: int = 0

    def next(self) -> float:
        """The delay after one more failure, in seconds."""
        # Bounded: the power of a year of failures is no float any more.
        step = min(self.most, self.first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Something worked: begin again."""
        self.failures = 0
