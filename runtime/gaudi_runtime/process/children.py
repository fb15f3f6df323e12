"""The processes below this one, as the operating system sees them: how they move, and how they end."""

import contextlib

import psutil

END_SECONDS = 5.0


def pulse() -> tuple[int, int]:
    """Processes below this one, and what they did so far: changes as long as one of them works.

    The second figure is seconds of processor time, mebibytes in memory and mebibytes read, added up.
    """
    # Memory and reads count too: a process that loads weights may use hardly any processor.
    work, count = 0, 0
    for child in children():
        with contextlib.suppress(psutil.Error):
            times, memory, moved = child.cpu_times(), child.memory_info(), child.io_counters()
            work += int(times.user + times.system) + (memory.rss + moved.read_chars) // 2**20
            count += 1
    return count, work


def children() -> list[psutil.Process]:
    """All processes below this one, also those whose own parent has gone on."""
    return psutil.Process().children(recursive=True)


def end_children() -> None:
    """Kill every process below this one and wait until it is gone."""
    # All of them, not only our own children: vLLM's core, when killed, leaves its workers behind with their memory.
    doomed = children()
    for child in doomed:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(doomed, timeout=END_SECONDS)
