"""The signals of this process, which close connections, stop the server, or stop the start between two steps."""

import asyncio
import signal
import threading


class Stopped(Exception):
    """The error that ends the start between two steps after SIGTERM."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Raise Stopped if `stop` is set. Blocking work calls this function between its steps."""
    if stop.is_set():
        raise Stopped


class Signals:
    """The signals that were received so far. Create the object inside the running event loop.

    `closing`: SIGUSR1 or SIGTERM was received, so answers contain the header `Connection: close`. `stop`: SIGTERM or
    SIGINT was received. `stop_between_buckets` is set together with `stop` and is for the worker thread.
    """

    def __init__(self) -> None:
        """Install the signal handlers in the running event loop."""
        self.closing = False
        self.stop = asyncio.Event()
        self.stop_between_buckets = threading.Event()
        # The event loop runs these handlers between its callbacks, so they may change objects of the loop. Handlers of
        # `signal.signal` may not.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.request_close)
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, self.request_stop)

    def request_close(self) -> None:
        """Set `closing`, as SIGUSR1 does."""
        self.closing = True

    def request_stop(self) -> None:
        """Set `closing` and `stop`, as SIGTERM does."""
        self.closing = True
        self.stop_between_buckets.set()
        self.stop.set()
