"""The processor and memory limits of this container from cgroup v2. Without limits, the values of the node."""

import math
import os
from pathlib import Path

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


def usable_cores(quota_file: Path = CPU_QUOTA) -> int:
    """Return the number of processor cores that this container may use, at least 1.

    `quota_file` is the file cpu.max with the content "<microseconds or max> <period in microseconds>".
    """
    # Libraries count all cores of the node. If they start more threads than the quota allows, the kernel throttles the
    # threads, and the threads wait for each other.
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = quota_file.read_text().split()
    except OSError:
        return cores
    return cores if quota == "max" else max(1, min(cores, math.ceil(int(quota) / int(period))))


def usable_cgroup_memory(limit_file: Path = MEMORY_LIMIT) -> int:
    """Return the memory limit of this container in bytes. `limit_file` is the file memory.max."""
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = limit_file.read_text().strip()
    except OSError:
        return total_bytes
    return total_bytes if limit == "max" else min(total_bytes, int(limit))
