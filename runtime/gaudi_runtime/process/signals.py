"""The signals of this process: close connections soon, stop, and stop between two steps of start-up."""

import asyncio
import signal
import threading


class Stopped(Exception):
    """Raised after SIGTERM, when start-up ends between two steps."""


def raise_if_stopped(stop: threading.Event) -> None:
    """Raise Stopped once `stop` is set. Blocking work calls this between its steps."""
    if stop.is_set():
        raise Stopped


class Signals:
    """The signals received so far. Create it inside the running event loop.

    `closing`: SIGUSR1 or SIGTERM was received, so answers carry `Connection: close`. `stop`: SIGTERM or SIGINT was
    received. `stop_between_buckets` is set together with `stop`, for the worker thread.
    """

    def __init__(self) -> None:
        """Install the handlers of the signals in the running event loop."""
        self.closing = False
        self.stop = asyncio.Event()
        self.stop_between_buckets = threading.Event()
        # The loop runs handlers between callbacks, unlike signal.signal, so they may change objects of the loop.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self.ask_to_close)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_to_stop)

    def ask_to_close(self) -> None:
        """Set `closing`, like SIGUSR1."""
        self.closing = True

    def ask_to_stop(self) -> None:
        """Set `stop`, like SIGTERM."""
        self.closing = True
        self.stop_between_buckets.set()
        self.stop.set()
