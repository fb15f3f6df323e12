"""How a start-up ends between two steps when SIGTERM came."""

import threading


class Stopped(Exception):
    """SIGTERM came; start-up ended between two steps."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Raises Stopped once `stop` is set."""
    if stop.is_set():
        raise Stopped
