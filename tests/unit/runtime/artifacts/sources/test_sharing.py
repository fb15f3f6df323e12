"""Two processes and one folder: one fetches, and the other waits and reports the wait."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from gaudi_runtime.process.signals import Stopped
from tests.unit.runtime.artifacts.sources.conftest import WEIGHTS, Site

PATIENCE = 30


@pytest.fixture
def waiter(site: Site) -> Iterator[ThreadPoolExecutor]:
    """A thread for the fetch of this process."""
    with ThreadPoolExecutor(1) as pool:
        yield pool
        site.stop.set()


@contextmanager
def other_process(site: Site, hold: threading.Event) -> Iterator["subprocess.Popen[bytes]"]:
    """Start another process, which takes the lock. The hub holds back the weights until `hold` is set."""
    site.hub.hold = hold
    command = [sys.executable, "-m", "tests.unit.runtime.artifacts.sources.fetching", site.endpoint, str(site.root)]
    with subprocess.Popen(command) as process:
        assert site.hub.reached.wait(PATIENCE)
        yield process
        hold.set()


def start_waiting_fetch(site: Site, waiter: ThreadPoolExecutor) -> "Future[Path]":
    """Start a fetch in this process, and return as soon as the fetch waits for the lock."""
    noticed = threading.Event()
    site.listen = lambda progress: noticed.set() if progress.waiting else None
    mine = waiter.submit(site.fetch)
    assert noticed.wait(PATIENCE)
    return mine


def test_two_processes_fetch_each_file_once(site: Site, waiter: ThreadPoolExecutor) -> None:
    hold = threading.Event()
    with other_process(site, hold) as process:
        mine = start_waiting_fetch(site, waiter)
        hold.set()
        assert (mine.result(PATIENCE) / "model.safetensors").read_bytes() == WEIGHTS
        assert process.wait(PATIENCE) == 0
    assert site.hub.downloads() == [("model.safetensors", None)]


def test_lock_of_a_killed_process_can_be_acquired(site: Site, waiter: ThreadPoolExecutor) -> None:
    hold = threading.Event()
    with other_process(site, hold) as process:
        mine = start_waiting_fetch(site, waiter)
        process.kill()
        hold.set()
        assert (mine.result(PATIENCE) / "model.safetensors").read_bytes() == WEIGHTS


def test_stop_ends_the_wait_for_another_process(site: Site, waiter: ThreadPoolExecutor) -> None:
    hold = threading.Event()
    with other_process(site, hold) as process:
        mine = start_waiting_fetch(site, waiter)
        site.stop.set()
        with pytest.raises(Stopped):
            mine.result(PATIENCE)
        process.kill()
