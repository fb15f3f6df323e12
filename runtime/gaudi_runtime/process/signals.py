"""What is asked of this process from outside: to close soon, to stop, and to stop between two steps of start-up."""

import asyncio
import signal
import threading


class Stopped(Exception):
    """SIGTERM came; start-up ended between two steps."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Raises Stopped once `stop` is set: blocking work calls it between its steps."""
    if stop.is_set():
        raise Stopped


class Signals:
    """What was asked of this process so far. Create it inside the running event loop.

    `closing`: SIGUSR1 or SIGTERM came, so answers carry `Connection: close`. `stop`: SIGTERM or SIGINT came.
    `stop_between_buckets` is the same for the worker thread.
    """

    def __init__(self) -> None:
        self.closing = False
        self.stop = asyncio.Event()
        self.stop_between_buckets = threading.Event()
        # By the loop, not signal.signal: handlers then run between callbacks and may touch what belongs to the loop.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.ask_to_close)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_to_stop)

    def ask_to_close(self) -> None:
        """As SIGUSR1 does."""
        self.closing = True

    def ask_to_stop(self) -> None:
        """As SIGTERM does."""
        self.closing = True
        self.stop_between_buckets.set()
        self.stop.set()
