"""Processes by pid and start time, so that a reused pid is never mistaken for ours."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from localcluster.errors import LocalClusterError

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Identity:
    """One process: `started` is in clock ticks since boot, as in /proc/PID/stat."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The process that has `pid` now."""
        return cls(pid, _stat(pid).started)

    @property
    def alive(self) -> bool:
        """Whether it runs. A zombie does not, once its other threads are gone: until then its sockets are open."""
        try:
            found = _stat(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return found.started == self.started and (found.state not in "ZX" or found.threads > 1)

    def kill(self) -> None:
        """SIGKILL, if it still is that process."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)


def wait_gone(process: Identity, timeout: float = 10.0) -> None:
    """Wait until `process` has ended."""
    wait_until(lambda: not process.alive, f"process {process.pid} to end", timeout)


def wait_until(condition: Callable[[], bool], what: str, timeout: float) -> None:
    """Ask `condition` every 20 ms; LocalClusterError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LocalClusterError(f"Waited {timeout:.0f} s in vain for {what}.")
        time.sleep(_POLL_SECONDS)


class _Stat(NamedTuple):
    state: str
    threads: int
    started: int


def _stat(pid: int) -> _Stat:
    """From /proc/PID/stat; the name at its beginning may contain spaces and brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[17]), int(fields[19]))
