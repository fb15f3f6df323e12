"""Errors of a reconcile, by the reaction that they require.

OperatorError
├── Stalled     a retry does not help: the API server rejects the request (422, 400)
│   └── Forbidden   permissions are missing (403), or the API server has just started and has not loaded them
├── Waiting     the cluster is about to change: requeue after `seconds`
├── Transient   the request failed (no answer, 5xx, 429, conflict): retry with back-off
├── NotFound    the object of the request does not exist, or has another UID
└── NotLeader   the lease is lost or may be expired: this process must not write

shell/client.py translates the errors of libraries and chains their cause. Backoff is the delay before a retry.
"""


class OperatorError(Exception):
    """An error that ends a reconcile. `reason` is a CamelCase word for conditions, events and metrics."""

    def __init__(self, reason: str, message: str) -> None:
        """Create an error with a reason for programs and a message for people."""
        super().__init__(message)
        self.reason = reason
        self.message = message


class StalledError(OperatorError):
    """The error of a reconcile whose request fails again unless something changes."""


class ForbiddenError(StalledError):
    """The error of a reconcile if permissions are missing.

    An API server that has just started returns this for some seconds too.
    """


class WaitingError(OperatorError):
    """The error of a reconcile if an obstacle disappears by itself. Requeue after `seconds`."""

    def __init__(self, reason: str, message: str, seconds: float) -> None:
        """Create an error with the delay until the requeue in seconds."""
        super().__init__(reason, message)
        self.seconds = seconds


class TransientError(OperatorError):
    """The error of a reconcile that a retry may resolve.

    `retry_after` is the delay in seconds if the server named one.
    """

    def __init__(self, reason: str, message: str, retry_after: float | None = None) -> None:
        """Create an error with the Retry-After header of the server, in seconds."""
        super().__init__(reason, message)
        self.retry_after = retry_after


class NotFoundError(OperatorError):
    """The error of a reconcile if an object does not exist, or its name belongs to another object."""


class NotLeaderError(OperatorError):
    """The error of a reconcile if another replica may be the leader."""
