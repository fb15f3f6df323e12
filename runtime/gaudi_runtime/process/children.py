"""The child processes of this process, as the operating system reports them: their activity and their end."""

import contextlib

import psutil

END_SECONDS = 5.0


def measure_activity() -> tuple[int, int]:
    """Return the number of child processes and their activity, which changes as long as one of them works.

    The activity is the sum of seconds of processor time, mebibytes in memory and mebibytes read.
    """
    # Memory and reads count too, because a process that loads weights may use hardly any processor.
    work, count = 0, 0
    for child in children():
        with contextlib.suppress(psutil.Error):
            times, memory, moved = child.cpu_times(), child.memory_info(), child.io_counters()
            work += int(times.user + times.system) + (memory.rss + moved.read_chars) // 2**20
            count += 1
    return count, work


def children() -> list[psutil.Process]:
    """Return all processes below this one, including those whose parent has ended."""
    return psutil.Process().children(recursive=True)


def end_children() -> None:
    """Kill every process below this one and wait until all have ended."""
    # All descendants are killed, because vLLM's core, when killed, leaves its workers behind with their memory.
    doomed = children()
    for child in doomed:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(doomed, timeout=END_SECONDS)
