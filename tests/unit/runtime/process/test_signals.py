"""The signals of Kubernetes: the hook's SIGUSR1 closes connections, SIGTERM also stops the process."""

import asyncio
import signal
from collections.abc import Callable

import pytest

from gaudi_runtime.process.signals import Signals, Stopped, raise_if_stopped


@pytest.mark.parametrize(
    ("received", "closing", "stopped"),
    [
        (None, False, False),
        (signal.SIGUSR1, True, False),
        (signal.SIGTERM, True, True),
        (signal.SIGINT, True, True),
    ],
)
async def test_only_sigterm_and_sigint_stop_the_process(
    monkeypatch: pytest.MonkeyPatch, received: signal.Signals | None, closing: bool, stopped: bool
) -> None:
    handlers: dict[int, Callable[[], None]] = {}
    # Record the handlers, because real handlers would also change what a Ctrl-C does to the test run.
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", handlers.__setitem__)
    signals = Signals()
    if received:
        handlers[received]()
    assert (signals.closing, signals.stop.is_set(), signals.stop_between_buckets.is_set()) == (
        closing,
        stopped,
        stopped,
    )


async def test_stop_ends_the_work_between_two_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda *_: None)
    signals = Signals()
    raise_if_stopped(signals.stop_between_buckets)
    signals.request_stop()
    with pytest.raises(Stopped):
        raise_if_stopped(signals.stop_between_buckets)
