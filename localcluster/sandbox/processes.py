"""Processes by pid and start time, because the kernel may reuse the pid for another process."""

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
    """The identity of one process. `start_ticks` is in clock ticks since boot, as in /proc/PID/stat."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """Return the process that has `pid` now."""
        return cls(pid, _stat(pid).start_ticks)

    @property
    def alive(self) -> bool:
        """Whether the process runs.

        A zombie with other threads counts as running, because they may have open sockets.
        """
        try:
            stat = _stat(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.start_ticks == self.start_ticks and (stat.state not in "ZX" or stat.thread_count > 1)

    def kill(self) -> None:
        """Send SIGKILL if the pid still belongs to this process."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)


def wait_for_end(process: Identity, timeout: float = 10.0) -> None:
    """Wait until `process` has ended."""
    wait_until(lambda: not process.alive, f"process {process.pid} to end", timeout)


def wait_until(condition: Callable[[], bool], description: str, timeout: float) -> None:
    """Check `condition` every 20 ms. Raises LocalClusterError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LocalClusterError(f"Timeout: waited {timeout:.0f} s for {description}.")
        time.sleep(_POLL_SECONDS)


class _Stat(NamedTuple):
    state: str
    thread_count: int
    start_ticks: int


def _stat(pid: int) -> _Stat:
    """Read /proc/PID/stat after the process name, which may contain spaces and brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[17]), int(fields[19]))
