"""Real Python processes with children."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.unit.runtime.runtime_process import wait_until


@contextmanager
def python(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `code` in a process, which is killed at the end of the block."""
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def pids(process: subprocess.Popen[str], count: int) -> list[int]:
    """Return the process IDs that the process prints, one per line."""
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def is_alive(pid: int) -> bool:
    """Return True if the process runs. A zombie counts as gone."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pid: int) -> None:
    """Wait until the process is gone, or fail."""
    wait_until(lambda: not is_alive(pid))
