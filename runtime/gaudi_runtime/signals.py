"""The three wishes that reach this process from outside: close soon, stop, and stop between two buckets."""

import asyncio
import signal
import threading


class Signals:
    """What was asked of this process so far. Create it inside the running event loop.

    `closing`: SIGUSR1 or SIGTERM came, so answers carry `Connection: close`. `stop`: SIGTERM or SIGINT came.
    `stop_between_buckets` is the same for the worker thread.
    """

    def __init__(self) -> None:
        self.closing = False
        self.stop = asyncio.Event()
        self.stop_between_buckets = threading.Event()
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
