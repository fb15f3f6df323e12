"""The activity of child processes, which shows that a late answer of vLLM is not a hang."""

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gaudi_runtime.process import children
from gaudi_runtime.process.children import measure_activity

MIB = 2**20


class Child:
    """A child process with these figures, or a child that has just ended."""

    def __init__(self, seconds: float = 0, memory: int = 0, reads: int = 0, *, ended: bool = False) -> None:
        self._seconds, self._memory, self._reads, self._ended = seconds, memory, reads, ended

    def cpu_times(self) -> Any:
        """Return the processor time, half of it in the kernel."""
        if self._ended:
            raise psutil.NoSuchProcess(1)
        return SimpleNamespace(user=self._seconds / 2, system=self._seconds / 2)

    def memory_info(self) -> Any:
        """Return the memory in bytes."""
        return SimpleNamespace(rss=self._memory)

    def io_counters(self) -> Any:
        """Return the bytes that were read."""
        return SimpleNamespace(read_chars=self._reads)


def activity_of(monkeypatch: pytest.MonkeyPatch, *processes: Child) -> tuple[int, int]:
    monkeypatch.setattr(children, "child_processes", lambda: processes)
    return measure_activity()


def test_activity_is_the_sum_of_time_memory_and_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = activity_of(monkeypatch, Child(seconds=6), Child(memory=3 * MIB), Child(memory=MIB, reads=4 * MIB))
    assert found == (3, 6 + 3 + 5)


def test_idle_processes_have_constant_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle process still uses some milliseconds and reads some bytes."""
    before = activity_of(monkeypatch, Child(seconds=6.1, memory=3 * MIB, reads=1000))
    assert activity_of(monkeypatch, Child(seconds=6.3, memory=3 * MIB, reads=9000)) == before


def test_ended_process_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert activity_of(monkeypatch, Child(ended=True), Child(seconds=2)) == (1, 2)
