"""Real processes of Python and what they start, seen from outside."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.unit.runtime.runtime_process import wait_until


@contextmanager
def python(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `code`, killed when the block is left."""
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def pids(process: subprocess.Popen[str], count: int) -> list[int]:
    """The numbers that it prints, one a line."""
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def is_alive(pid: int) -> bool:
    """Whether it still runs; one that nobody has waited for is gone as well."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(pid: int) -> None:
    """Fails when it never goes."""
    wait_until(lambda: not is_alive(pid))
