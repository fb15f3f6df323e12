"""The child processes of this process: the measurement of their activity, and their end."""

import contextlib

import psutil

END_SECONDS = 5.0


def measure_activity() -> tuple[int, int]:
    """Return the number of child processes and a number that changes while any of them works.

    The second number is the sum of processor time in seconds, used memory in mebibytes and reads in mebibytes.
    """
    # Count memory and reads too, because a process that loads weights may use very little processor time.
    activity, child_count = 0, 0
    for child in child_processes():
        with contextlib.suppress(psutil.Error):
            times, memory, io_counters = child.cpu_times(), child.memory_info(), child.io_counters()
            activity += int(times.user + times.system) + (memory.rss + io_counters.read_chars) // 2**20
            child_count += 1
    return child_count, activity


def child_processes() -> list[psutil.Process]:
    """Return all descendants of this process."""
    return psutil.Process().children(recursive=True)


def end_children() -> None:
    """Kill all descendants of this process and wait until they have ended."""
    # Kill all descendants. If only vLLM's core is killed, its workers keep running and keep their memory allocated.
    children = child_processes()
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, timeout=END_SECONDS)
